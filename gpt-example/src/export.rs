//! `gpt export`: a trained model for Hugging Face's transformers.
//!
//! Weights go from file to file, tensor by tensor, as `f32`: layouts are the same
//! (see [`pretrained`](crate::pretrained)). The model is never made.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lynx_burn::Save;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use crate::cli::ExportArgs;
use crate::config::GptConfig;
use crate::error::RunError;
use crate::files;
use crate::pretrained::PretrainedError;
use crate::pretrained::file::Tensors;
use crate::pretrained::names::{self, Named};
use crate::pretrained::settings;
use crate::progress::say;
use crate::saved::{Remembered, find};

/// Ends a text in GPT-2's vocabulary.
const END: &str = "<|endoftext|>";

/// A model that is not written for others.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The save's own weights cannot be read.
    #[error(transparent)]
    Weights(#[from] PretrainedError),
    /// A file of somebody else's would be lost.
    #[error(
        "{} is there and is no configuration of Hugging Face's: name a file in a folder of its own \
         with --out",
        .0.display()
    )]
    InTheWay(PathBuf),
    /// The same for a tokenizer.
    #[error(
        "{} is there and is not this run's: name a file in a folder of its own with --out",
        .0.display()
    )]
    TokenizerInTheWay(PathBuf),
    /// Weights that what is written beside them would replace.
    #[error("{} is what is written beside the weights: name another file with --out", .0.display())]
    Name(PathBuf),
    /// Sizes that no file has.
    #[error("{} cannot be described: {reason}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Writes weights, configuration and tokenizer.
///
/// # Errors
///
/// If there is no such save, or a file cannot be written.
pub fn run(args: &ExportArgs) -> Result<(), RunError> {
    let save = find(&args.run)?;
    let remembered: Remembered = save.about()?;
    let config = &remembered.model;
    config.validate()?;
    let tokenizer = remembered.tokenizer(&args.run)?;
    let beside = args.out.with_file_name(settings::FILE);
    if !settings::may_be_replaced(&beside) {
        return Err(ExportError::InTheWay(beside).into());
    }
    let tokenizer_file = args.out.with_file_name("tokenizer.json");
    if [&beside, &tokenizer_file].contains(&&args.out) {
        return Err(ExportError::Name(args.out.clone()).into());
    }
    if let Some(json) = tokenizer.json()
        && std::fs::read(&tokenizer_file).is_ok_and(|there| there != json.as_bytes())
    {
        return Err(ExportError::TokenizerInTheWay(tokenizer_file).into());
    }
    if let Some(folder) = args.out.parent() {
        std::fs::create_dir_all(folder).map_err(files::WriteError::new(folder))?;
    }
    let count = weights(&save, config, &args.out)?;
    let written = settings::written(config, tokenizer.special(END));
    files::write(&beside, |out| {
        serde_json::to_writer_pretty(&mut *out, &written)?;
        writeln!(out)
    })?;
    let mut all = vec![args.out.clone(), beside];
    if let Some(json) = tokenizer.json() {
        files::write(&tokenizer_file, |out| out.write_all(json.as_bytes()))?;
        all.push(tokenizer_file);
    }
    say(format_args!(
        "{count} tensors of {}, after step {}",
        save.path().display(),
        save.step()
    ));
    for path in all {
        say(format_args!("written to {}", path.display()));
    }
    Ok(())
}

/// Writes the weights; how many tensors there are.
fn weights(save: &Save, config: &GptConfig, path: &Path) -> Result<usize, RunError> {
    let saved = Tensors::open(&save.checked_weights()?).map_err(ExportError::from)?;
    let tokens = config.vocabulary - config.padding;
    let all: Vec<Named> =
        names::all((config.layers, config.d_model), (tokens, config.context)).collect();
    let header = header(&all).map_err(|error| ExportError::Header {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let mut failed = None;
    let written = files::write(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        for one in &all {
            match saved.read(&one.path) {
                // Rows without a token come last.
                Ok(values) => put(out, &values, one.dims.iter().product())?,
                Err(error) => {
                    let told = io::Error::other(error.to_string());
                    failed = Some(error);
                    return Err(told);
                }
            }
        }
        Ok(())
    });
    match failed {
        Some(error) => return Err(ExportError::from(error).into()),
        None => written?,
    }
    Ok(all.len())
}

/// Writes the first `count` numbers.
fn put(out: &mut dyn Write, values: &[f32], count: usize) -> io::Result<()> {
    let values = values.get(..count).ok_or(io::ErrorKind::UnexpectedEof)?;
    // Not number by number through a pointer to a writer.
    for some in values.chunks(1 << 14) {
        let bytes: Vec<u8> = some.iter().flat_map(|value| value.to_le_bytes()).collect();
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// What the file says of itself, padded such that numbers lie at multiples of their size.
fn header(all: &[Named]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut end = 0;
    let infos = all.iter().map(|one| {
        let begin = end;
        end += 4 * one.dims.iter().product::<usize>();
        let info = TensorInfo {
            dtype: Dtype::F32,
            shape: one.dims.clone(),
            data_offsets: (begin, end),
        };
        (format!("{}{}", names::PREFIX, one.name), info)
    });
    // transformers reads no file without it.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let header = Metadata::new(Some(about), infos.collect())?;
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}
