//! A `.safetensors` file: what is in it is known at once, and read tensor by tensor.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use burn::tensor::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::{PretrainedError, names};

/// Of the length of the header.
const LENGTH: u64 = 8;
/// No header is longer: the format's own limit.
const LONGEST: u64 = 100_000_000;

/// The tensors of a file, by their names without prefix.
#[derive(Debug)]
pub(crate) struct Tensors {
    path: PathBuf,
    /// Where the first tensor's bytes lie.
    begin: u64,
    infos: BTreeMap<String, TensorInfo>,
}

impl Tensors {
    /// Reads what the file says of itself, and finds that it is as long as that.
    ///
    /// # Errors
    ///
    /// If it is no such file, or not all of it.
    pub(crate) fn open(path: &Path) -> Result<Self, PretrainedError> {
        let damaged = || PretrainedError::damaged(path);
        let mut file = File::open(path).map_err(PretrainedError::read(path))?;
        let known = file.metadata().map_err(PretrainedError::read(path))?;
        if known.is_dir() {
            return Err(PretrainedError::read(path)(
                io::ErrorKind::IsADirectory.into(),
            ));
        }
        let mut length = [0; LENGTH as usize];
        let first = file.read_exact(&mut length);
        first.map_err(|_| damaged()("it is shorter than the length it begins with".to_owned()))?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST || length > known.len().saturating_sub(LENGTH) {
            return Err(damaged()(format!(
                "its header would have {length} bytes, the file has {}",
                known.len()
            )));
        }
        let mut header = Vec::new();
        let read = file.take(length).read_to_end(&mut header);
        read.map_err(PretrainedError::read(path))?;
        let header: Metadata =
            serde_json::from_slice(&header).map_err(PretrainedError::damaged(path))?;
        let begin = LENGTH + length;
        let end = begin.saturating_add(header.data_len() as u64);
        if end != known.len() {
            let what = format!("it has {} bytes instead of {end}", known.len());
            return Err(damaged()(what));
        }
        let mut infos = BTreeMap::new();
        for (name, info) in header.tensors() {
            let name = names::short(&name).to_owned();
            if infos.insert(name.clone(), info.clone()).is_some() {
                return Err(damaged()(format!("it has two tensors {name:?}")));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            begin,
            infos,
        })
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all tensors.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.infos.keys().map(String::as_str)
    }

    /// A tensor's shape.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub(crate) fn dims(&self, name: &str) -> Result<&[usize], PretrainedError> {
        Ok(&self.info(name)?.shape)
    }

    /// Finds that a tensor's numbers are of a known type.
    pub(super) fn check_type(&self, name: &str) -> Result<(), PretrainedError> {
        match self.info(name)?.dtype {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
            other => Err(PretrainedError::Type {
                path: self.path.clone(),
                name: name.to_owned(),
                found: other.to_string(),
            }),
        }
    }

    /// A tensor's numbers, row by row.
    ///
    /// # Errors
    ///
    /// If there is none of that name, its type is not known, or the file changed meanwhile.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<f32>, PretrainedError> {
        self.check_type(name)?;
        let info = self.info(name)?;
        let bytes = self.bytes(info)?;
        let pairs = || bytes.as_chunks::<2>().0.iter().copied();
        Ok(match info.dtype {
            Dtype::F16 => pairs()
                .map(|two| f16::from_le_bytes(two).to_f32())
                .collect(),
            Dtype::BF16 => pairs()
                .map(|two| bf16::from_le_bytes(two).to_f32())
                .collect(),
            _ => {
                let (fours, _) = bytes.as_chunks::<4>();
                fours.iter().map(|&four| f32::from_le_bytes(four)).collect()
            }
        })
    }

    /// Whether two tensors are of one type and shape, and have the same bytes.
    ///
    /// # Errors
    ///
    /// If there are not both, or the file changed meanwhile.
    pub(super) fn equal(&self, one: &str, other: &str) -> Result<bool, PretrainedError> {
        let (one, other) = (self.info(one)?, self.info(other)?);
        let alike = one.dtype == other.dtype && one.shape == other.shape;
        Ok(alike && self.bytes(one)? == self.bytes(other)?)
    }

    fn bytes(&self, info: &TensorInfo) -> Result<Vec<u8>, PretrainedError> {
        let (from, to) = info.data_offsets;
        let read = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.begin + from as u64))?;
            let mut bytes = vec![0; to - from];
            file.read_exact(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(PretrainedError::read(&self.path))
    }

    fn info(&self, name: &str) -> Result<&TensorInfo, PretrainedError> {
        self.infos
            .get(name)
            .ok_or_else(|| PretrainedError::Missing {
                path: self.path.clone(),
                name: name.to_owned(),
            })
    }
}
