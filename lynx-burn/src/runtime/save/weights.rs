//! `weights.safetensors`: every parameter of the model once and whole, under its path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use burn::tensor::DType;
use burn_store::burn_pack::Tensor as Stored;
use burn_store::{
    ModuleAdapter, ModuleContext, ModuleSnapshot, ModuleStore, PathFilter, SafetensorsStore,
};

use super::error::{LoadError, SaveError};
use super::slices;
use crate::ids::RankId;
use crate::runtime::chain::Chain;
use crate::runtime::shard;

/// Type and shape of each parameter, by path.
pub(crate) type Forms = BTreeMap<String, Form>;

/// Type and whole shape of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    dtype: DType,
    dims: Vec<usize>,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.dtype, self.dims)
    }
}

/// Of everything that is saved of the module that one of so many ranks holds: integers, booleans
/// and frozen numbers too.
pub(crate) fn forms<C: Chain>(module: &C, ranks: usize) -> Forms {
    let tensors = module.collect(None, None, false);
    let whole = |mut tensor: Stored| {
        let sharding = shard::of(module, &tensor.name, ranks);
        tensor.shape = slices::whole_shape(&tensor.shape, sharding, ranks);
        form(&tensor)
    };
    tensors.into_iter().map(whole).collect()
}

fn form(tensor: &Stored) -> (String, Form) {
    let form = Form {
        dtype: tensor.dtype,
        dims: tensor.shape.to_vec(),
    };
    (tensor.name.clone(), form)
}

/// Writes the workers' parts of a model into one file.
///
/// Tensors are read from their devices one after the other.
pub(crate) fn write<C: Chain>(
    workers: &Vec<C>,
    ranks: usize,
    path: &Path,
) -> Result<(), SaveError> {
    let wholes = wholes(workers, ranks);
    let wanted: Vec<&String> = wholes.keys().collect();
    // A list of modules is a module whose paths begin with the place in the list.
    SafetensorsStore::from_file(path)
        .filter(PathFilter::new().with_full_paths(wanted))
        .with_key_remapping(r"^\d+\.", "")
        .skip_enum_variants(false)
        .with_to_adapter(Wholes(wholes))
        .collect_from(workers)
        .map_err(SaveError::encode(path))
}

/// `model` with the values of the workers' parts of it, on the devices where it is.
#[cfg(feature = "train")]
pub(crate) fn fill<C: Chain>(mut model: C, workers: &[C], ranks: usize) -> Result<C, LoadError> {
    let tensors = wholes(workers, ranks).into_values().collect();
    let done = model.apply(tensors, None, None, false);
    if let Some(error) = done.errors.first() {
        return Err(LoadError::damaged(Path::new("the model"))(error));
    }
    match done.missing.into_iter().next() {
        Some((name, _)) => Err(LoadError::Missing(name)),
        None => Ok(model),
    }
}

/// Every tensor of the workers' parts of a model once and whole, by the worker's place and the path;
/// so many workers in a row are the ranks of a stage. A parameter that several stages hold is equal on
/// all of them, and the first one's is taken.
fn wholes<C: Chain>(workers: &[C], ranks: usize) -> BTreeMap<String, Stored> {
    let mut known = BTreeSet::new();
    let mut wholes = BTreeMap::new();
    for (stage, workers) in workers.chunks(ranks).enumerate() {
        let mut held = workers
            .iter()
            .map(|worker| worker.collect(None, None, false));
        let first = held.next().unwrap_or_default();
        let others: Vec<Vec<Stored>> = held.collect();
        for (index, tensor) in first.into_iter().enumerate() {
            if known.insert(tensor.name.clone()) {
                let sharding = shard::of(&workers[0], &tensor.name, ranks);
                let place = format!("{}.{}", stage * ranks, tensor.name);
                // All ranks list the same parameters, in the module's order.
                let others = others.iter().filter_map(|other| other.get(index).cloned());
                let slices = std::iter::once(tensor).chain(others).collect();
                wholes.insert(place, slices::united(slices, sharding));
            }
        }
    }
    wholes
}

/// Puts wholes in the place of the first rank's slices.
#[derive(Clone)]
struct Wholes(BTreeMap<String, Stored>);

impl ModuleAdapter for Wholes {
    fn adapt(&self, tensor: Stored, _: ModuleContext<'_>) -> Stored {
        let name = tensor.name.clone();
        let whole = self.0.get(&name).cloned();
        whole.map_or(tensor, |mut whole| {
            whole.name = name;
            whole
        })
    }

    fn clone_box(&self) -> Box<dyn ModuleAdapter> {
        Box::new(self.clone())
    }
}

/// Compares what a file holds with what a model needs.
pub(crate) fn compare(path: &Path, needed: &Forms) -> Result<(), LoadError> {
    let saved: Forms = stored(path)?.iter().map(form).collect();
    for (name, here) in needed {
        match saved.get(name) {
            None => return Err(LoadError::Missing(name.clone())),
            Some(saved) if saved != here => {
                return Err(LoadError::Differs {
                    parameter: name.clone(),
                    saved: saved.to_string(),
                    here: here.to_string(),
                });
            }
            Some(_) => {}
        }
    }
    match saved.into_keys().find(|name| !needed.contains_key(name)) {
        Some(name) => Err(LoadError::Unexpected(name)),
        None => Ok(()),
    }
}

/// A rank's module with the file's values; those of other modules are not read.
pub(crate) fn load<C: Chain>(
    path: &Path,
    module: &C,
    share: (RankId, usize),
) -> Result<C, LoadError> {
    let tensors = stored(path)?.into_iter();
    let slice = |tensor: Stored| {
        let sharding = shard::of(module, &tensor.name, share.1);
        slices::part(tensor, sharding, share)
    };
    let mut loaded = module.clone();
    let done = loaded.apply(tensors.map(slice).collect(), None, None, false);
    if let Some(error) = done.errors.first() {
        return Err(LoadError::damaged(path)(error));
    }
    match done.missing.into_iter().next() {
        Some((name, _)) => Err(LoadError::Missing(name)),
        None => Ok(loaded),
    }
}

/// The file's tensors, whose values are not read yet.
fn stored(path: &Path) -> Result<Vec<Stored>, LoadError> {
    let mut store = SafetensorsStore::from_file(path);
    let tensors = store.get_all_tensors().map_err(LoadError::damaged(path))?;
    Ok(tensors.values().cloned().collect())
}
