//! What a planner decides: for every segment of a layer, whether and where it is recomputed.
//!
//! Like layers share their choices, so a stage's plan is one or two groups of layers (any number
//! can be written down and evaluated). What it costs is defined in `evaluate`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::plan::cluster::Window;

/// What happens to the tape of a segment between its forward and its backward. In files and
/// tables: `retain`, `exposed`, or the name of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SegmentChoice {
    /// It is kept.
    Retain,
    /// It is made anew just before the half of the layer that needs it, on the critical path.
    Exposed,
    /// It is made anew in a window.
    ///
    /// - F1, F2: in that layer's place of the forward that lies before the backward; in the
    ///   cool-down, where there is none, in the bubble.
    /// - SEND, RECV: before the backward.
    /// - BUBBLE: before a backward of the cool-down; all others find it exposed.
    /// - B1: of the same layer for a segment of the first half, of the layer after it for one of
    ///   the second half, whose backward comes earlier.
    /// - B2: of the layer after it.
    InWindow(Window),
}

/// A text that is no choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a choice: write retain, exposed, F1, F2, B1, B2, SEND, RECV or BUBBLE")]
pub struct ParseChoiceError {
    text: String,
}

/// How exposed recompute goes about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    /// Segment by segment; no collective is repeated, so what comes out of one is kept.
    #[default]
    Segments,
    /// This many whole layers at once, from the input of the first, with all their collectives,
    /// as Megatron-LM's full recompute does it. The last lot may be smaller.
    Layers(usize),
}

/// Consecutive layers that share their choices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerGroup {
    /// How many layers.
    pub layers: usize,
    /// One choice for each segment of a layer.
    pub choices: Vec<SegmentChoice>,
    /// How exposed recompute goes about it.
    #[serde(default, skip_serializing_if = "Replay::is_by_segment")]
    pub replay: Replay,
}

/// What a stage does: its layers, from the input, in groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagePlan {
    /// The groups, from the input of the stage.
    pub groups: Vec<LayerGroup>,
}

impl SegmentChoice {
    /// Whether the tape is made anew.
    pub fn is_recomputed(self) -> bool {
        self != Self::Retain
    }

    /// The window it is made anew in.
    pub fn window(self) -> Option<Window> {
        match self {
            Self::InWindow(window) => Some(window),
            Self::Retain | Self::Exposed => None,
        }
    }

    /// Whether the tape is there before the backward begins, in the steady part.
    pub fn is_long_lived(self) -> bool {
        use Window::{F1, F2, Recv, Send};
        matches!(self, Self::InWindow(F1 | F2 | Send | Recv))
    }
}

impl Replay {
    fn is_by_segment(&self) -> bool {
        *self == Self::Segments
    }
}

impl LayerGroup {
    /// Layers whose segments are recomputed one by one.
    pub fn new(layers: usize, choices: Vec<SegmentChoice>) -> Self {
        Self {
            layers,
            choices,
            replay: Replay::Segments,
        }
    }
}

impl StagePlan {
    /// The same choices for all layers.
    pub fn uniform(layers: usize, choices: Vec<SegmentChoice>) -> Self {
        Self {
            groups: vec![LayerGroup::new(layers, choices)],
        }
    }

    /// The number of layers; absurd counts give the largest number.
    pub fn layers(&self) -> usize {
        let counts = self.groups.iter().map(|group| group.layers);
        counts.fold(0, usize::saturating_add)
    }

    /// The group of every layer, in order.
    pub fn by_layer(&self) -> impl Iterator<Item = &LayerGroup> {
        let groups = self.groups.iter();
        groups.flat_map(|group| std::iter::repeat_n(group, group.layers))
    }
}

impl fmt::Display for SegmentChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retain => f.pad("retain"),
            Self::Exposed => f.pad("exposed"),
            Self::InWindow(window) => window.fmt(f),
        }
    }
}

impl FromStr for SegmentChoice {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let window = || {
            let mut all = Window::ALL.into_iter();
            all.find(|window| window.to_string() == text)
        };
        match text {
            "retain" => Ok(Self::Retain),
            "exposed" => Ok(Self::Exposed),
            _ => window()
                .map(Self::InWindow)
                .ok_or_else(|| ParseChoiceError {
                    text: text.to_owned(),
                }),
        }
    }
}

impl TryFrom<String> for SegmentChoice {
    type Error = ParseChoiceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<SegmentChoice> for String {
    fn from(choice: SegmentChoice) -> Self {
        choice.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_back_from_its_text() {
        let windows = Window::ALL.map(SegmentChoice::InWindow);
        let others = [SegmentChoice::Retain, SegmentChoice::Exposed];
        for choice in windows.into_iter().chain(others) {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "F3".parse::<SegmentChoice>().unwrap_err();
        assert!(error.to_string().contains("\"F3\""), "{error}");
    }
}
