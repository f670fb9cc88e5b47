//! What the shapes of a GPT-2's tensors say of it.

use std::collections::BTreeSet;

use super::file::Tensors;
use super::{PretrainedError, names};

/// The sizes that shapes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) layers: usize,
    pub(super) width: usize,
    pub(super) vocabulary: usize,
    pub(super) context: usize,
}

impl Sizes {
    /// Finds that all tensors of a GPT-2 are there, of one width, and no others.
    pub(super) fn of(tensors: &Tensors) -> Result<Self, PretrainedError> {
        let [vocabulary, width] = matrix(tensors, names::EMBEDDING)?;
        let [context, _] = matrix(tensors, names::POSITIONS)?;
        let weights = tensors.names().filter(|name| !names::is_buffer(name));
        let layers: BTreeSet<usize> = weights.filter_map(names::layer).collect();
        let sizes = Self {
            layers: layers.len(),
            width,
            vocabulary,
            context,
        };
        let mut known = BTreeSet::from([names::HEAD.to_owned()]);
        for wanted in names::all((sizes.layers, width), (vocabulary, context)) {
            check(tensors, &wanted.name, &wanted.dims)?;
            known.insert(wanted.name);
        }
        let mut others = tensors.names().filter(|name| !names::is_buffer(name));
        match others.find(|name| !known.contains(*name)) {
            None => Ok(sizes),
            Some(name) => Err(PretrainedError::Foreign {
                path: tensors.path().to_owned(),
                name: name.to_owned(),
            }),
        }
    }
}

fn matrix(tensors: &Tensors, name: &str) -> Result<[usize; 2], PretrainedError> {
    let dims = tensors.dims(name)?;
    dims.try_into().map_err(|_| PretrainedError::Shape {
        path: tensors.path().to_owned(),
        name: name.to_owned(),
        found: dims.to_vec(),
        wanted: "a matrix".to_owned(),
    })
}

fn check(tensors: &Tensors, name: &str, wanted: &[usize]) -> Result<(), PretrainedError> {
    tensors.check_type(name)?;
    let found = tensors.dims(name)?;
    if found == wanted {
        return Ok(());
    }
    Err(PretrainedError::Shape {
        path: tensors.path().to_owned(),
        name: name.to_owned(),
        found: found.to_vec(),
        wanted: format!("{wanted:?}"),
    })
}
