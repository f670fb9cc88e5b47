//! `weights.safetensors`: every parameter of the model once, under its path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use burn::module::Module;
use burn::tensor::DType;
use burn_store::burn_pack::Tensor as Stored;
use burn_store::{ModuleSnapshot, ModuleStore, PathFilter, SafetensorsStore};

use super::error::{LoadError, SaveError};

/// Type and shape of each parameter, by path.
pub(crate) type Forms = BTreeMap<String, Form>;

/// Type and shape of a parameter.
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

/// Of everything in the module that is saved: integers, booleans and frozen numbers too.
pub(crate) fn forms<M: Module>(module: &M) -> Forms {
    let tensors = module.collect(None, None, false);
    tensors.iter().map(form).collect()
}

fn form(tensor: &Stored) -> (String, Form) {
    let form = Form {
        dtype: tensor.dtype,
        dims: tensor.shape.to_vec(),
    };
    (tensor.name.clone(), form)
}

/// Writes the parts of a model into one file.
///
/// Tensors are read from their devices one after the other. A parameter that several parts hold is
/// equal on all of them, and the first one's is written.
pub(crate) fn write<M: Module>(parts: &Vec<M>, path: &Path) -> Result<(), SaveError> {
    let mut known = BTreeSet::new();
    let mut wanted = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        for (name, _) in forms(part) {
            let place = format!("{index}.{name}");
            if known.insert(name) {
                wanted.push(place);
            }
        }
    }
    // A list of modules is a module whose paths begin with the place in the list.
    SafetensorsStore::from_file(path)
        .filter(PathFilter::new().with_full_paths(wanted))
        .with_key_remapping(r"^\d+\.", "")
        .skip_enum_variants(false)
        .collect_from(parts)
        .map_err(SaveError::encode(path))
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

/// The module with the file's values; those of other modules are not read.
pub(crate) fn load<M: Module>(path: &Path, module: &M) -> Result<M, LoadError> {
    let mut loaded = module.clone();
    let done = loaded.apply(stored(path)?, None, None, false);
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
