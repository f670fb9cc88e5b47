//! `optimizer.bpk`: the optimizer's state of each parameter, under the parameter's path.
//!
//! Burn keeps an optimizer's state by the parameters' ids, which are drawn anew in every process, and
//! writes it as tensors and numbers named `ID.FIELD`. Here they are named `PATH:FIELD`; where they are
//! read, each stage takes those of its own parameters and puts its own ids in. Of several ranks each
//! has the state of its slice, which is put together as the parameter is.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use burn::optim::ModuleOptimizer;
use burn::tensor::Bytes;
use burn_store::burn_pack::{Reader, Scalar, Tensor as Stored, Writer};

use super::error::{LoadError, SaveError};
use super::slices;
use super::weights::Forms;
use crate::ids::RankId;
use crate::runtime::exec::crew::message;
use crate::runtime::shard::Sharding;

/// Between a parameter's path and a field of its state. No field has one.
const FIELD: char = ':';

/// The field in which Burn keeps the rank of the parameter.
const RANK: &str = "__rank";

/// What one worker's optimizer knows, in Burn's format.
pub(crate) struct WorkerStates {
    pub(crate) record: Bytes,
    /// Parameters by their ids.
    pub(crate) parameters: BTreeMap<u64, Owner>,
}

/// A parameter, for its states.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) path: String,
    /// Of the rank's slice.
    pub(crate) dims: Vec<usize>,
    /// A state of the parameter's shape is in slices as the parameter is.
    pub(crate) sharding: Sharding,
}

/// Writes all workers' states into one file.
pub(crate) fn write(
    workers: Vec<WorkerStates>,
    ranks: usize,
    path: &Path,
) -> Result<(), SaveError> {
    gathered(workers, ranks, path)?
        .write_to_file(path)
        .map_err(SaveError::encode(path))
}

/// All workers' states in one; so many workers in a row are the ranks of a stage. Where several
/// stages hold a parameter, its states are equal, and the first one's is taken. `path` is where they
/// go, for errors.
pub(crate) fn gathered(
    workers: Vec<WorkerStates>,
    ranks: usize,
    path: &Path,
) -> Result<Writer, SaveError> {
    let mut whole = BTreeMap::new();
    let mut scalars = BTreeMap::new();
    let mut workers = workers.into_iter();
    loop {
        let stage: Vec<WorkerStates> = workers.by_ref().take(ranks).collect();
        if stage.is_empty() {
            break;
        }
        let mut tensors: BTreeMap<String, (Owner, Vec<Stored>)> = BTreeMap::new();
        for worker in stage {
            let reader = Reader::from_bytes(worker.record).map_err(SaveError::encode(path))?;
            let owned = |name: &str| {
                let (id, field) = name.split_once('.')?;
                let owner = worker.parameters.get(&id.parse().ok()?)?;
                Some((owner.clone(), format!("{}{FIELD}{field}", owner.path)))
            };
            for (name, value) in reader.scalars() {
                if let Some((_, name)) = owned(name) {
                    scalars.entry(name).or_insert(*value);
                }
            }
            for mut tensor in reader.into_tensors().map_err(SaveError::encode(path))? {
                if let Some((owner, name)) = owned(&tensor.name) {
                    tensor.name.clone_from(&name);
                    tensor.param_id = None;
                    let slices = tensors.entry(name).or_insert_with(|| (owner, Vec::new()));
                    slices.1.push(tensor);
                }
            }
        }
        for (name, (owner, slices)) in tensors {
            if let Entry::Vacant(place) = whole.entry(name) {
                place.insert(unite(&owner, slices, ranks, path)?);
            }
        }
    }
    Ok(packed(whole.into_values().collect(), scalars))
}

/// One state of one parameter, from what the ranks have of it.
fn unite(
    owner: &Owner,
    slices: Vec<Stored>,
    ranks: usize,
    path: &Path,
) -> Result<Stored, SaveError> {
    let alike = slices.iter().all(|slice| *slice.shape == *owner.dims);
    if owner.sharding == Sharding::Whole || (alike && slices.len() == ranks) {
        return Ok(slices::united(slices, owner.sharding));
    }
    let (name, shape) = (&slices[0].name, &slices[0].shape);
    Err(SaveError::encode(path)(format!(
        "the optimizer's state {name} has shape {shape:?} on each of {ranks} ranks, which does not \
         follow from the parameter's {:?}",
        owner.dims
    )))
}

fn packed(tensors: Vec<Stored>, scalars: BTreeMap<String, Scalar>) -> Writer {
    let writer = Writer::new(tensors);
    scalars.into_iter().fold(writer, |writer, (name, value)| {
        writer.with_scalar(&name, value)
    })
}

/// Finds that the file speaks of these parameters alone.
pub(crate) fn compare(path: &Path, known: &Forms) -> Result<(), LoadError> {
    let reader = Reader::from_file_exact(path).map_err(LoadError::damaged(path))?;
    let scalars = reader.scalars().keys().map(String::as_str);
    for name in reader.tensor_names().into_iter().chain(scalars) {
        let (parameter, _) = split(path, name)?;
        if !known.contains_key(parameter) {
            return Err(LoadError::Unexpected(parameter.to_owned()));
        }
    }
    Ok(())
}

fn split<'a>(path: &Path, name: &'a str) -> Result<(&'a str, &'a str), LoadError> {
    name.rsplit_once(FIELD)
        .ok_or_else(|| LoadError::damaged(path)(format!("it holds a state named {name:?}")))
}

/// `optimizer` with the file's states of what a rank holds.
pub(crate) fn load(
    path: &Path,
    optimizer: &ModuleOptimizer,
    parameters: &[Owner],
    share: (RankId, usize),
) -> Result<ModuleOptimizer, LoadError> {
    let reader = Reader::from_file_exact(path).map_err(LoadError::damaged(path))?;
    dealt(reader, path, optimizer, parameters, share)
}

/// `optimizer` with those of the states that are a rank's. `path` is where they come from, for errors.
pub(crate) fn dealt(
    reader: Reader,
    path: &Path,
    optimizer: &ModuleOptimizer,
    parameters: &[Owner],
    share: (RankId, usize),
) -> Result<ModuleOptimizer, LoadError> {
    let by_path = parameters.iter().map(|owner| (owner.path.as_str(), owner));
    let by_path: BTreeMap<&str, &Owner> = by_path.collect();
    // By the name in Burn's format: whose it is.
    let mut owners = BTreeMap::new();
    let mut scalars = BTreeMap::new();
    for (name, value) in reader.scalars() {
        let (parameter, field) = split(path, name)?;
        let Some(owner) = by_path.get(parameter) else {
            continue;
        };
        // Burn does not survive a rank that no tensor has.
        if field == RANK && usize::try_from(*value) != Ok(owner.dims.len()) {
            return Err(LoadError::damaged(path)(format!(
                "the rank of {parameter} differs"
            )));
        }
        let name = format!("{}.{field}", owner.id);
        owners.insert(name.clone(), *owner);
        scalars.insert(name, *value);
    }
    let mut tensors = Vec::new();
    for mut tensor in reader.into_tensors().map_err(LoadError::damaged(path))? {
        let (parameter, field) = split(path, &tensor.name)?;
        let Some(owner) = by_path.get(parameter) else {
            continue;
        };
        let name = format!("{}.{field}", owner.id);
        owners.insert(name.clone(), *owner);
        tensor.name = name;
        tensor.param_id = Some(owner.id);
        tensors.push(slices::part(tensor, owner.sharding, share));
    }
    let record = owners
        .values()
        .fold(packed(tensors, scalars), |record, owner| {
            // Where there are groups of parameters, Burn finds the group by the path.
            record.with_metadata(&owner.id.to_string(), &owner.path)
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
    owners: &BTreeMap<String, &Owner>,
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
        Some((_, owner)) => Err(LoadError::Optimizer {
            parameter: owner.path.clone(),
        }),
        None => Ok(()),
    }
}
