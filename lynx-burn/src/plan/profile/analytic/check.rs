//! What can be wrong with the description of a GPT.

use super::Gpt;
use crate::plan::profile::ProfileError;

/// A GPT that cannot be, or cannot be split so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A number is zero or absurd.
    #[error("{field} is {value}, but must lie within 1 and {most}")]
    OutOfRange {
        /// Which one.
        field: &'static str,
        /// What it is.
        value: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// Something would have to be cut in parts of different size.
    #[error("{whole} is {value}, which {parts} = {count} does not divide")]
    NotDivisible {
        /// What is to be divided.
        whole: &'static str,
        /// Its size.
        value: u64,
        /// What divides it.
        parts: &'static str,
        /// How many parts.
        count: u64,
    },
    /// The costs are beyond what a profile may hold.
    #[error("such a model costs too much: {0}")]
    Costs(ProfileError),
}

impl Gpt {
    /// Refuses zeros, absurd sizes, and ranks that cannot share heads or tokens evenly.
    pub fn validate(&self) -> Result<(), SetupError> {
        let size = &self.size;
        let figures = [
            ("layers", size.layers, 1 << 16),
            ("hidden", size.hidden, 1 << 20),
            ("heads", size.heads, 1 << 20),
            ("vocabulary", size.vocabulary, 1 << 28),
            ("sequence", self.sequence, 1 << 24),
            ("micro_batch", self.micro_batch, 1 << 20),
            ("tensor_parallel", self.tensor_parallel, 1 << 20),
        ];
        for (field, value, most) in figures {
            if !(1..=most).contains(&value) {
                return Err(SetupError::OutOfRange { field, value, most });
            }
        }
        // Zero is fine for these.
        let state = [
            ("state.gradient", self.state.gradient),
            ("state.optimizer", self.state.optimizer),
        ];
        for (field, value) in state {
            let most = 1 << 10;
            if value > most {
                return Err(SetupError::OutOfRange { field, value, most });
            }
        }
        divides(("hidden", size.hidden), ("heads", size.heads))?;
        let ranks = ("tensor_parallel", self.tensor_parallel);
        divides(("heads", size.heads), ranks)?;
        if self.sequence_parallel {
            divides(("sequence", self.sequence), ranks)?;
        }
        Ok(())
    }
}

fn divides(whole: (&'static str, u64), parts: (&'static str, u64)) -> Result<(), SetupError> {
    if whole.1.is_multiple_of(parts.1) {
        return Ok(());
    }
    Err(SetupError::NotDivisible {
        whole: whole.0,
        value: whole.1,
        parts: parts.0,
        count: parts.1,
    })
}
