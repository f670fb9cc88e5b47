//! Walks over a module's parameters that Burn's own visitors do not make: by path, without ranks.

use std::collections::{BTreeMap, HashMap};

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::prelude::*;
use burn::tensor::Gradients;

use super::gradient::Gradient;

/// A float parameter as the runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterInfo {
    pub(crate) path: String,
    pub(crate) id: ParamId,
    pub(crate) dims: Vec<usize>,
    pub(crate) bytes: u64,
    /// Whether it takes part in training.
    pub(crate) trainable: bool,
}

/// The module's float parameters in the module's order, each created if it was not yet.
pub(crate) fn list<M: Module>(module: &M) -> Vec<ParameterInfo> {
    let mut found = Vec::new();
    visit(module, |path, parameter| found.push(parameter.info(path)));
    found
}

/// A float parameter of any rank.
pub(crate) trait AnyParameter {
    fn id(&self) -> ParamId;
    fn info(&self, path: &str) -> ParameterInfo;
    fn value(&self) -> Gradient;
    /// The tensor whose gradient autodiff collects, if it does.
    fn leaf(&self) -> Option<Box<dyn Leaf>>;
    /// Registers a gradient of the parameter's rank; another one is left out.
    fn put(&self, gradients: &mut GradientsParams, gradient: Gradient);
}

impl<const D: usize> AnyParameter for Param<Tensor<D>> {
    fn id(&self) -> ParamId {
        self.id
    }

    fn info(&self, path: &str) -> ParameterInfo {
        let value = self.val();
        ParameterInfo {
            path: path.to_owned(),
            id: self.id,
            dims: value.dims().to_vec(),
            bytes: (value.dims().iter().product::<usize>() * value.dtype().size()) as u64,
            trainable: value.is_require_grad(),
        }
    }

    fn value(&self) -> Gradient {
        Gradient::new(self.val().inner())
    }

    fn leaf(&self) -> Option<Box<dyn Leaf>> {
        self.is_require_grad()
            .then(|| Box::new(self.val()) as Box<dyn Leaf>)
    }

    fn put(&self, gradients: &mut GradientsParams, gradient: Gradient) {
        if let Some(tensor) = gradient.take::<D>() {
            gradients.register(self.id, tensor);
        }
    }
}

/// A tensor of any rank that is asked for its gradient once.
pub(crate) trait Leaf: Send {
    fn take(&self, gradients: &mut Gradients) -> Option<Gradient>;
}

impl<const D: usize> Leaf for Tensor<D> {
    fn take(&self, gradients: &mut Gradients) -> Option<Gradient> {
        self.grad_remove(gradients).map(Gradient::new)
    }
}

/// The leaves of a module's trainable parameters.
pub(crate) fn leaves<M: Module>(module: &M) -> Vec<(ParamId, Box<dyn Leaf>)> {
    let mut found = Vec::new();
    visit(module, |_, parameter| {
        found.extend(parameter.leaf().map(|leaf| (parameter.id(), leaf)));
    });
    found
}

/// Shows every float parameter and its dotted path.
pub(crate) fn visit<M: Module>(module: &M, seen: impl FnMut(&str, &dyn AnyParameter)) {
    struct Walk<F> {
        path: Vec<String>,
        seen: F,
    }

    impl<F: FnMut(&str, &dyn AnyParameter)> ModuleVisitor for Walk<F> {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            (self.seen)(&self.path.join("."), param);
        }
    }

    let mut walk = Walk {
        path: Vec::new(),
        seen,
    };
    module.visit(&mut walk);
}

/// The module with the values in `values` in place of its own, by path.
///
/// A value whose rank is not the parameter's is left out: paths and shapes are compared before.
pub(crate) fn replace<M: Module>(module: M, values: BTreeMap<String, Gradient>) -> M {
    struct Replace {
        path: Vec<String>,
        values: HashMap<String, Gradient>,
    }

    impl ModuleMapper for Replace {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }

        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let value = self.values.remove(&self.path.join("."));
            let Some(value) = value.and_then(Gradient::take::<D>) else {
                return param;
            };
            param.map(|old| {
                let value = value.to_device(&old.device().inner());
                if old.is_autodiff() {
                    value.autodiff().set_require_grad(old.is_require_grad())
                } else {
                    value
                }
            })
        }
    }

    module.map(&mut Replace {
        path: Vec::new(),
        values: values.into_iter().collect(),
    })
}

/// Where a module holds a random or batch-dependent layer of Burn's that is switched on: its path
/// and type.
///
/// Burn marks all of them (dropout, noise, batch normalisation, randomised activations) by a
/// training flag, so a flag is what is looked for, not a list of names.
pub(crate) fn training_flags<M: Module>(module: &M) -> Vec<(String, String)> {
    struct Flags {
        path: Vec<(String, String)>,
        found: Vec<(String, String)>,
    }

    impl ModuleVisitor for Flags {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.push((name.to_owned(), container.to_owned()));
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }

        fn visit_flag(&mut self, flag: &Param<Flag>) {
            if !flag.is_enabled() {
                return;
            }
            // The last entry is the flag's own field; its owner's type is on the same entry.
            let owner = self.path.len().saturating_sub(1);
            let path: Vec<&str> = self.path[..owner].iter().map(|(n, _)| n.as_str()).collect();
            let kind = self.path.last().map_or("", |(_, kind)| kind.as_str());
            let kind = kind.rsplit(':').next().unwrap_or(kind);
            self.found.push((path.join("."), kind.to_owned()));
        }
    }

    let mut flags = Flags {
        path: Vec::new(),
        found: Vec::new(),
    };
    module.visit(&mut flags);
    flags.found
}
