//! The words a schedule is made of.
//!
//! An action names what happens and to which micro-batch on which chunk; the
//! stage it happens on is known from the list it stands in. How it is carried
//! out is the executor's business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Shape, Unit};
use crate::ids::{ChunkId, MicroBatchId, StageId};

/// One thing that a stage does to one micro-batch, or when it is through with the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Action {
    /// Run the segments of the chunk.
    Forward(Unit),
    /// Run their backward, all of it.
    Backward(Unit),
    /// Run the part of their backward that the stage before waits for: the
    /// gradient of the input boundary.
    BackwardInput(Unit),
    /// Run the rest of that backward: the gradients of the weights.
    BackwardWeight(Unit),
    /// Send the chunk's output boundary to the next stage.
    SendForward(Unit),
    /// Receive the input boundary from the previous stage.
    RecvForward(Unit),
    /// Send the gradient of the input boundary to the previous stage.
    SendBackward(Unit),
    /// Receive the gradient of the output boundary from the next stage.
    RecvBackward(Unit),
    /// Replace the gradients of the chunk's weights, summed up to this micro-batch, which is the
    /// step's last, by the sum over all replicas of the pipeline.
    ReduceGradients(Unit),
}

use Action::{
    Backward, BackwardInput, BackwardWeight, Forward, RecvBackward, RecvForward, ReduceGradients,
    SendBackward, SendForward,
};

/// A word that is no action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is not an action: write F3, B3, I3, W3, SF3, RF3, SB3, RB3 or G3 for micro-batch 3, \
     F3.1 for it on chunk 1"
)]
pub struct ParseActionError {
    word: String,
}

impl Action {
    /// What it concerns.
    pub fn unit(self) -> Unit {
        match self {
            Forward(unit) | Backward(unit) | BackwardInput(unit) | BackwardWeight(unit) => unit,
            SendForward(unit) | RecvForward(unit) | SendBackward(unit) | RecvBackward(unit) => unit,
            ReduceGradients(unit) => unit,
        }
    }

    /// The micro-batch it concerns.
    pub fn micro_batch(self) -> MicroBatchId {
        self.unit().micro_batch
    }

    /// The chunk it concerns, of the stage that does it.
    pub fn chunk(self) -> ChunkId {
        self.unit().chunk
    }

    /// Whether it computes; everything else moves data.
    pub fn is_compute(self) -> bool {
        matches!(
            self,
            Forward(_) | Backward(_) | BackwardInput(_) | BackwardWeight(_)
        )
    }

    /// Whether it moves something between two stages of the pipeline.
    pub fn is_transfer(self) -> bool {
        !self.is_compute() && !self.is_reduction()
    }

    /// Whether it sums gradients over replicas.
    pub fn is_reduction(self) -> bool {
        matches!(self, ReduceGradients(_))
    }

    /// Whether it hands something to another stage.
    pub fn is_send(self) -> bool {
        matches!(self, SendForward(_) | SendBackward(_))
    }

    /// Whether it belongs to the forward pass.
    pub fn is_forward(self) -> bool {
        matches!(self, Forward(_) | SendForward(_) | RecvForward(_))
    }

    /// Whether it makes the gradient that the stage before waits for.
    pub fn makes_gradient(self) -> bool {
        matches!(self, Backward(_) | BackwardInput(_))
    }

    /// Whether it ends the backward of its unit, so that nothing of it is kept.
    pub fn ends_backward(self) -> bool {
        matches!(self, Backward(_) | BackwardWeight(_))
    }

    /// Whether it is a part of a backward that is done in two.
    pub fn is_split(self) -> bool {
        matches!(self, BackwardInput(_) | BackwardWeight(_))
    }

    /// The other end of a transfer that `stage` does: the stage there, and the
    /// receive that belongs to this send or the other way round. `None` for all
    /// other actions, and where the pipeline ends.
    pub fn other_end(self, stage: StageId, shape: Shape) -> Option<(StageId, Self)> {
        let unit = self.unit();
        let (to, chunk) = match self {
            Forward(_) | Backward(_) | BackwardInput(_) | BackwardWeight(_) => return None,
            ReduceGradients(_) => return None,
            SendForward(_) | RecvBackward(_) => shape.after(stage, unit.chunk)?,
            RecvForward(_) | SendBackward(_) => shape.before(stage, unit.chunk)?,
        };
        let there = unit.on(chunk);
        let partner = match self {
            SendForward(_) => RecvForward(there),
            RecvForward(_) => SendForward(there),
            SendBackward(_) => RecvBackward(there),
            _ => SendBackward(there),
        };
        // A stage that is alone passes its boundaries on to itself for nothing.
        (to != stage).then_some((to, partner))
    }

    /// The action at the [other end](Self::other_end).
    pub fn partner(self, stage: StageId, shape: Shape) -> Option<Self> {
        self.other_end(stage, shape).map(|(_, partner)| partner)
    }

    /// The stage at the [other end](Self::other_end).
    pub fn peer(self, stage: StageId, shape: Shape) -> Option<StageId> {
        self.other_end(stage, shape).map(|(peer, _)| peer)
    }

    /// The receive that brings what this compute action reads from another
    /// stage, if there is such a stage.
    pub(in crate::plan) fn input(self, stage: StageId, shape: Shape) -> Option<Self> {
        let receive = match self {
            Forward(unit) => RecvForward(unit),
            Backward(unit) | BackwardInput(unit) => RecvBackward(unit),
            _ => return None,
        };
        receive.peer(stage, shape).map(|_| receive)
    }

    /// The send that takes what this compute action makes to another stage, if
    /// there is such a stage.
    pub(in crate::plan) fn output(self, stage: StageId, shape: Shape) -> Option<Self> {
        let send = match self {
            Forward(unit) => SendForward(unit),
            Backward(unit) | BackwardInput(unit) => SendBackward(unit),
            _ => return None,
        };
        send.peer(stage, shape).map(|_| send)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Forward(_) => "F",
            Backward(_) => "B",
            BackwardInput(_) => "I",
            BackwardWeight(_) => "W",
            SendForward(_) => "SF",
            RecvForward(_) => "RF",
            SendBackward(_) => "SB",
            RecvBackward(_) => "RB",
            ReduceGradients(_) => "G",
        };
        f.pad(&format!("{word}{}", self.unit()))
    }
}

impl FromStr for Action {
    type Err = ParseActionError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let refused = || ParseActionError {
            word: word.to_owned(),
        };
        let digits = word
            .find(|c: char| c.is_ascii_digit())
            .ok_or_else(refused)?;
        let (kind, number) = word.split_at(digits);
        let unit = Unit::parse(number).ok_or_else(refused)?;
        let action = match kind {
            "F" => Forward,
            "B" => Backward,
            "I" => BackwardInput,
            "W" => BackwardWeight,
            "SF" => SendForward,
            "RF" => RecvForward,
            "SB" => SendBackward,
            "RB" => RecvBackward,
            "G" => ReduceGradients,
            _ => return Err(refused()),
        };
        Ok(action(unit))
    }
}

impl TryFrom<String> for Action {
    type Error = ParseActionError;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        word.parse()
    }
}

impl From<Action> for String {
    fn from(action: Action) -> Self {
        action.to_string()
    }
}

#[cfg(test)]
#[path = "action_tests.rs"]
mod tests;
