//! The words a schedule is made of.
//!
//! An action names what happens and to which micro-batch; the stage it happens
//! on is known from the list it stands in. How it is carried out is the
//! executor's business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{MicroBatchId, StageId};

/// One thing that a stage does to one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Action {
    /// Run the segments of the stage.
    Forward(MicroBatchId),
    /// Run their backward.
    Backward(MicroBatchId),
    /// Send the stage's output boundary to the next stage.
    SendForward(MicroBatchId),
    /// Receive the input boundary from the previous stage.
    RecvForward(MicroBatchId),
    /// Send the gradient of the input boundary to the previous stage.
    SendBackward(MicroBatchId),
    /// Receive the gradient of the output boundary from the next stage.
    RecvBackward(MicroBatchId),
}

use Action::{Backward, Forward, RecvBackward, RecvForward, SendBackward, SendForward};

/// A word that is no action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not an action: write F3, B3, SF3, RF3, SB3 or RB3 for micro-batch 3")]
pub struct ParseActionError {
    word: String,
}

impl Action {
    /// The micro-batch it concerns.
    pub fn micro_batch(self) -> MicroBatchId {
        match self {
            Forward(mb) | Backward(mb) => mb,
            SendForward(mb) | RecvForward(mb) | SendBackward(mb) | RecvBackward(mb) => mb,
        }
    }

    /// Whether it computes; everything else moves data.
    pub fn is_compute(self) -> bool {
        matches!(self, Forward(_) | Backward(_))
    }

    /// Whether it hands something to another stage.
    pub fn is_send(self) -> bool {
        matches!(self, SendForward(_) | SendBackward(_))
    }

    /// Whether it belongs to the forward pass.
    pub fn is_forward(self) -> bool {
        matches!(self, Forward(_) | SendForward(_) | RecvForward(_))
    }

    /// The receive that belongs to a send and the other way round.
    pub fn partner(self) -> Option<Self> {
        match self {
            Forward(_) | Backward(_) => None,
            SendForward(mb) => Some(RecvForward(mb)),
            RecvForward(mb) => Some(SendForward(mb)),
            SendBackward(mb) => Some(RecvBackward(mb)),
            RecvBackward(mb) => Some(SendBackward(mb)),
        }
    }

    /// The stage at the other end when `stage` of `stages` does this; `None`
    /// for a compute action, and where the pipeline ends.
    pub fn peer(self, stage: StageId, stages: usize) -> Option<StageId> {
        let peer = match self {
            Forward(_) | Backward(_) => return None,
            SendForward(_) | RecvBackward(_) => stage.0.checked_add(1)?,
            RecvForward(_) | SendBackward(_) => stage.0.checked_sub(1)?,
        };
        (peer < stages).then_some(StageId(peer))
    }

    /// The receive that brings what this compute action reads from another
    /// stage, if there is such a stage.
    pub(super) fn input(self, stage: StageId, stages: usize) -> Option<Self> {
        let receive = match self {
            Forward(mb) => RecvForward(mb),
            Backward(mb) => RecvBackward(mb),
            _ => return None,
        };
        receive.peer(stage, stages).map(|_| receive)
    }

    /// The send that takes what this compute action makes to another stage, if
    /// there is such a stage.
    pub(super) fn output(self, stage: StageId, stages: usize) -> Option<Self> {
        let send = match self {
            Forward(mb) => SendForward(mb),
            Backward(mb) => SendBackward(mb),
            _ => return None,
        };
        send.peer(stage, stages).map(|_| send)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Forward(_) => "F",
            Backward(_) => "B",
            SendForward(_) => "SF",
            RecvForward(_) => "RF",
            SendBackward(_) => "SB",
            RecvBackward(_) => "RB",
        };
        f.pad(&format!("{word}{}", self.micro_batch().0))
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
        let micro_batch = MicroBatchId(number.parse().map_err(|_| refused())?);
        let action = match kind {
            "F" => Forward,
            "B" => Backward,
            "SF" => SendForward,
            "RF" => RecvForward,
            "SB" => SendBackward,
            "RB" => RecvBackward,
            _ => return Err(refused()),
        };
        Ok(action(micro_batch))
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
mod tests {
    use super::*;

    const ALL: [fn(MicroBatchId) -> Action; 6] = [
        Forward,
        Backward,
        SendForward,
        RecvForward,
        SendBackward,
        RecvBackward,
    ];

    #[test]
    fn every_word_reads_back_as_its_action() {
        for (make, word) in ALL.iter().zip(["F3", "B3", "SF3", "RF3", "SB3", "RB3"]) {
            let action = make(MicroBatchId(3));
            assert_eq!(action.to_string(), word);
            assert_eq!(word.parse(), Ok(action));
            assert_eq!(serde_json::to_string(&action).unwrap(), format!("{word:?}"));
        }
    }

    #[test]
    fn words_that_are_no_action_are_refused_with_the_word() {
        for word in [
            "",
            "F",
            "3",
            "F-1",
            "f3",
            "FS3",
            "F3x",
            "SF 3",
            "F99999999999999999999",
        ] {
            let error = word.parse::<Action>().expect_err(word);
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn the_two_ends_of_a_transfer_name_each_other() {
        let stages = 3;
        for make in ALL {
            let action = make(MicroBatchId(1));
            for stage in (0..stages).map(StageId) {
                let Some(peer) = action.peer(stage, stages) else {
                    continue;
                };
                assert_eq!(peer.0.abs_diff(stage.0), 1);
                let partner = action.partner().unwrap();
                assert_ne!(partner.is_send(), action.is_send());
                assert_eq!(partner.partner(), Some(action));
                assert_eq!(partner.peer(peer, stages), Some(stage));
            }
        }
        let ends = |stage: usize| {
            let present = |make: &&fn(_) -> Action| {
                make(MicroBatchId(0)).peer(StageId(stage), stages).is_some()
            };
            ALL.iter().filter(present).count()
        };
        assert_eq!([ends(0), ends(1), ends(2)], [2, 4, 2]);
    }
}
