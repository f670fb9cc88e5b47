//! A stage's parameters from a file of weights.

use burn::module::{ModuleMapper, Param};
use burn::prelude::*;

use super::file::Tensors;
use super::{Pretrained, PretrainedError, names};
use crate::model::Gpt;

impl Pretrained {
    /// Gives a part of the model its parameters; those of other parts are not read.
    ///
    /// Rows of the embedding beyond the file's vocabulary, which are no tokens, become zeros.
    ///
    /// # Errors
    ///
    /// If the file is of other sizes than the model, or changed since it was opened.
    pub fn load(&self, part: Gpt, device: &Device) -> Result<Gpt, PretrainedError> {
        let mut load = Load {
            tensors: &self.tensors,
            device,
            path: Vec::new(),
            failed: None,
        };
        let part = part.map(&mut load);
        match load.failed {
            None => Ok(part),
            Some(error) => Err(error),
        }
    }
}

/// Walks over a model and puts the file's values in.
struct Load<'a> {
    tensors: &'a Tensors,
    device: &'a Device,
    path: Vec<String>,
    /// The first thing that went wrong; a walk cannot be left early.
    failed: Option<PretrainedError>,
}

impl Load<'_> {
    /// The values of the parameter that the walk is at.
    fn values(&self, dims: &[usize]) -> Result<TensorData, PretrainedError> {
        let path = self.path.join(".");
        let name = names::of(&path).unwrap_or(path);
        let found = self.tensors.dims(&name)?;
        let mut values = self.tensors.read(&name)?;
        let all: usize = dims.iter().product();
        // Rows without a token come last.
        let is_padded = name == names::EMBEDDING && found.get(1..) == dims.get(1..);
        if is_padded && found.first() < dims.first() {
            values.resize(all, 0.0);
        } else if found != dims {
            return Err(PretrainedError::Shape {
                path: self.tensors.path().to_owned(),
                name,
                found: found.to_vec(),
                wanted: format!("{dims:?}"),
            });
        }
        Ok(TensorData::new(values, dims.to_vec()))
    }
}

impl ModuleMapper for Load<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failed.is_some() {
            return param;
        }
        // Known before the initial values are made, which nobody needs.
        let dims = param.lazy_shape().to_vec();
        match self.values(&dims) {
            Ok(values) => {
                let tensor = Tensor::from_data(values, self.device).require_grad();
                Param::initialized(param.id, tensor)
            }
            Err(error) => {
                self.failed = Some(error);
                param
            }
        }
    }
}
