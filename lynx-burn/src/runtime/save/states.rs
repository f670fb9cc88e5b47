//! `optimizer.bpk`: the optimizer's state of each parameter, under the parameter's path.
//!
//! Burn keeps an optimizer's state by the parameters' ids, which are drawn anew in every process, and
//! writes it as tensors and numbers named `ID.FIELD`. Here they are named `PATH:FIELD`; where they are
//! read, each stage takes those of its own parameters and puts its own ids in.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use burn::optim::ModuleOptimizer;
use burn::tensor::Bytes;
use burn_store::burn_pack::{Reader, Scalar, Tensor as Stored, Writer};

use super::error::{LoadError, SaveError};
use crate::runtime::exec::crew::message;
use crate::runtime::parameters::ParameterInfo;

/// Between a parameter's path and a field of its state. No field has one.
const FIELD: char = ':';

/// The field in which Burn keeps the rank of the parameter.
const RANK: &str = "__rank";

/// What one stage's optimizer knows, in Burn's format.
pub(crate) struct StageStates {
    pub(crate) record: Bytes,
    /// The parameters' paths by their ids.
    pub(crate) paths: BTreeMap<u64, String>,
}

/// Writes all stages' states into one file. Where several stages hold a parameter, its states are
/// equal, and the first one's is written.
pub(crate) fn write(stages: Vec<StageStates>, path: &Path) -> Result<(), SaveError> {
    let mut tensors = BTreeMap::new();
    let mut scalars = BTreeMap::new();
    for stage in stages {
        let named = |name: &str| {
            let (id, field) = name.split_once('.')?;
            let path = stage.paths.get(&id.parse().ok()?)?;
            Some(format!("{path}{FIELD}{field}"))
        };
        let reader = Reader::from_bytes(stage.record).map_err(SaveError::encode(path))?;
        for (name, value) in reader.scalars() {
            if let Some(name) = named(name) {
                scalars.entry(name).or_insert(*value);
            }
        }
        for mut tensor in reader.into_tensors().map_err(SaveError::encode(path))? {
            if let Some(name) = named(&tensor.name) {
                tensor.name.clone_from(&name);
                tensor.param_id = None;
                tensors.entry(name).or_insert(tensor);
            }
        }
    }
    packed(tensors.into_values().collect(), scalars)
        .write_to_file(path)
        .map_err(SaveError::encode(path))
}

fn packed(tensors: Vec<Stored>, scalars: BTreeMap<String, Scalar>) -> Writer {
    let writer = Writer::new(tensors);
    scalars.into_iter().fold(writer, |writer, (name, value)| {
        writer.with_scalar(&name, value)
    })
}

/// Finds that the file speaks of these parameters alone.
pub(crate) fn compare<'a>(
    path: &Path,
    parameters: impl Iterator<Item = &'a str>,
) -> Result<(), LoadError> {
    let known: BTreeSet<&str> = parameters.collect();
    let reader = Reader::from_file_exact(path).map_err(LoadError::damaged(path))?;
    let scalars = reader.scalars().keys().map(String::as_str);
    for name in reader.tensor_names().into_iter().chain(scalars) {
        let (parameter, _) = split(path, name)?;
        if !known.contains(parameter) {
            return Err(LoadError::Unexpected(parameter.to_owned()));
        }
    }
    Ok(())
}

fn split<'a>(path: &Path, name: &'a str) -> Result<(&'a str, &'a str), LoadError> {
    name.rsplit_once(FIELD)
        .ok_or_else(|| LoadError::damaged(path)(format!("it holds a state named {name:?}")))
}

/// `optimizer` with the file's states of `parameters`.
pub(crate) fn load(
    path: &Path,
    optimizer: &ModuleOptimizer,
    parameters: &[ParameterInfo],
) -> Result<ModuleOptimizer, LoadError> {
    let by_path: BTreeMap<&str, &ParameterInfo> = parameters
        .iter()
        .map(|parameter| (parameter.path.as_str(), parameter))
        .collect();
    let reader = Reader::from_file_exact(path).map_err(LoadError::damaged(path))?;
    // By the name in Burn's format: whose it is.
    let mut owners = BTreeMap::new();
    let mut scalars = BTreeMap::new();
    for (name, value) in reader.scalars() {
        let (parameter, field) = split(path, name)?;
        let Some(info) = by_path.get(parameter) else {
            continue;
        };
        // Burn does not survive a rank that no tensor has.
        if field == RANK && usize::try_from(*value) != Ok(info.dims.len()) {
            return Err(LoadError::damaged(path)(format!(
                "the rank of {parameter} differs"
            )));
        }
        let name = format!("{}.{field}", info.id.val());
        owners.insert(name.clone(), *info);
        scalars.insert(name, *value);
    }
    let mut tensors = Vec::new();
    for mut tensor in reader.into_tensors().map_err(LoadError::damaged(path))? {
        let (parameter, field) = split(path, &tensor.name)?;
        let Some(info) = by_path.get(parameter) else {
            continue;
        };
        let name = format!("{}.{field}", info.id.val());
        owners.insert(name.clone(), *info);
        tensor.name = name;
        tensor.param_id = Some(info.id.val());
        tensors.push(tensor);
    }
    let record = owners
        .values()
        .fold(packed(tensors, scalars), |record, info| {
            // Where there are groups of parameters, Burn finds the group by the path.
            record.with_metadata(&info.id.val().to_string(), &info.path)
        });
    let record = record.into_bytes().map_err(LoadError::damaged(path))?;
    // Burn panics at a tensor whose rank is not the field's, which only a forged file has.
    let loaded = catch_unwind(AssertUnwindSafe(|| optimizer.clone().from_bytes(record)))
        .map_err(|panic| LoadError::damaged(path)(message(panic.as_ref())))?
        .map_err(LoadError::damaged(path))?;
    refuse_others(path, &loaded, &owners)?;
    Ok(loaded)
}

/// Burn leaves out the state of another kind of optimizer, which would then begin anew in silence.
fn refuse_others(
    path: &Path,
    loaded: &ModuleOptimizer,
    owners: &BTreeMap<String, &ParameterInfo>,
) -> Result<(), LoadError> {
    let record = loaded.into_bytes().map_err(LoadError::damaged(path))?;
    let reader = Reader::from_bytes(record).map_err(LoadError::damaged(path))?;
    let tensors = reader.tensor_names().into_iter();
    let taken: BTreeSet<&str> = tensors
        .chain(reader.scalars().keys().map(String::as_str))
        .collect();
    match owners
        .iter()
        .find(|(name, _)| !taken.contains(name.as_str()))
    {
        Some((_, info)) => Err(LoadError::Optimizer {
            parameter: info.path.clone(),
        }),
        None => Ok(()),
    }
}
