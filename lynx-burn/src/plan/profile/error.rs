//! What can be wrong with a profile.

use super::model::ModelProfile;
use super::segment::{SegmentProfile, WeightBytes};
use crate::plan::cluster::Collective;

/// A description that is no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// There is nothing to plan.
    #[error("layers: a model needs at least one layer, got 0")]
    NoLayers,
    /// A layer would be nothing.
    #[error("{place}.segments: a layer needs at least one segment, got 0")]
    NoSegments {
        /// The kind of layer, as a path in the file.
        place: String,
    },
    /// A name is missing.
    #[error("{field} is empty: tables, plans and errors need a name")]
    NoName {
        /// Where it stands, as a path in the file.
        field: String,
    },
    /// Layers could not tell two kinds apart.
    #[error("{place}.name: {name:?} is the name of an earlier kind too")]
    DuplicateKind {
        /// The later kind, as a path in the file.
        place: String,
        /// The name of both.
        name: String,
    },
    /// Layers are of a kind that is not described.
    #[error("{place}.kind: no kind of layer is named {name:?}; there are {known:?}")]
    UnknownKind {
        /// The layers, as a path in the file.
        place: String,
        /// The name that matches nothing.
        name: String,
        /// Every kind.
        known: Vec<String>,
    },
    /// A number is beyond anything that sums could be made of.
    #[error("{field} is {value}, but must lie within {least} and {most}")]
    OutOfRange {
        /// Where it stands, as a path in the file.
        field: String,
        /// What stands there.
        value: u64,
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
    },
}

impl ModelProfile {
    /// The most nanoseconds or bytes of one segment: nearly five hours, 16 TiB.
    pub const MOST: u64 = 1 << 44;
    /// The most segments of a whole model. Sums over all of them stay below 2^60.
    pub const MOST_SEGMENTS: u64 = 1 << 16;

    /// Refuses a model without layers, unknown or unnamed parts, and figures whose sums could
    /// overflow.
    pub fn validate(&self) -> Result<(), ProfileError> {
        named("name", &self.name)?;
        let ranks = self.tensor_parallel as u64;
        within("tensor_parallel", ranks, 1, 1 << 20)?;
        within("tokens", self.tokens.unwrap_or(0), 0, Self::MOST)?;
        for (index, segment) in self.embedding.iter().enumerate() {
            segment.validate(&format!("embedding[{index}]"))?;
        }
        self.validate_kinds()?;
        self.validate_layers()?;
        for (index, segment) in self.head.iter().enumerate() {
            segment.validate(&format!("head[{index}]"))?;
        }
        self.tied.validate("tied")
    }

    fn validate_kinds(&self) -> Result<(), ProfileError> {
        for (index, kind) in self.kinds.iter().enumerate() {
            let place = format!("kinds[{index}]");
            named(&format!("{place}.name"), &kind.name)?;
            if self.kinds[..index].iter().any(|k| k.name == kind.name) {
                let name = kind.name.clone();
                return Err(ProfileError::DuplicateKind { place, name });
            }
            if kind.segments.is_empty() {
                return Err(ProfileError::NoSegments { place });
            }
            for (index, segment) in kind.segments.iter().enumerate() {
                segment.validate(&format!("{place}.segments[{index}]"))?;
            }
        }
        Ok(())
    }

    fn validate_layers(&self) -> Result<(), ProfileError> {
        let mut segments = (self.embedding.len() + self.head.len()) as u64;
        for (index, run) in self.layers.iter().enumerate() {
            let place = format!("layers[{index}]");
            let Some(kind) = self.kinds.iter().find(|kind| kind.name == run.kind) else {
                return Err(ProfileError::UnknownKind {
                    place,
                    name: run.kind.clone(),
                    known: self.kinds.iter().map(|kind| kind.name.clone()).collect(),
                });
            };
            let count = run.count as u64;
            within(&format!("{place}.count"), count, 1, Self::MOST_SEGMENTS)?;
            segments = segments.saturating_add(count.saturating_mul(kind.segments.len() as u64));
        }
        if self.layers.is_empty() {
            return Err(ProfileError::NoLayers);
        }
        within("the number of segments", segments, 1, Self::MOST_SEGMENTS)
    }
}

impl SegmentProfile {
    fn validate(&self, place: &str) -> Result<(), ProfileError> {
        named(&format!("{place}.name"), &self.name)?;
        let figures = [
            ("forward_ns", self.forward.0),
            ("backward_input_ns", self.backward_input.0),
            (
                "backward_weight_ns",
                self.backward_weight.unwrap_or_default().0,
            ),
            ("recompute_ns", self.recompute.0),
            ("tape_bytes", self.tape.0),
            ("kept_input_bytes", self.kept_input.0),
            ("notes_bytes", self.notes.0),
            ("boundary_bytes", self.boundary.0),
            ("workspace_bytes", self.workspace.0),
        ];
        for (field, value) in figures {
            within(&format!("{place}.{field}"), value, 0, ModelProfile::MOST)?;
        }
        collectives(&format!("{place}.after_forward"), &self.after_forward)?;
        collectives(&format!("{place}.after_backward"), &self.after_backward)?;
        self.weights.validate(&format!("{place}.weights"))
    }
}

impl WeightBytes {
    fn validate(&self, place: &str) -> Result<(), ProfileError> {
        let parts = [
            ("parameter_bytes", self.parameters),
            ("gradient_bytes", self.gradients),
            ("optimizer_bytes", self.optimizer),
        ];
        parts.into_iter().try_for_each(|(field, bytes)| {
            within(&format!("{place}.{field}"), bytes.0, 0, ModelProfile::MOST)
        })
    }
}

/// A handful of collectives may stand between two segments.
fn collectives(place: &str, all: &[Collective]) -> Result<(), ProfileError> {
    within(&format!("the number of {place}"), all.len() as u64, 0, 16)?;
    all.iter().enumerate().try_for_each(|(index, one)| {
        let field = format!("{place}[{index}].bytes");
        within(&field, one.size.0, 0, ModelProfile::MOST)
    })
}

fn named(field: &str, name: &str) -> Result<(), ProfileError> {
    if name.is_empty() {
        let field = field.to_owned();
        return Err(ProfileError::NoName { field });
    }
    Ok(())
}

fn within(field: &str, value: u64, least: u64, most: u64) -> Result<(), ProfileError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ProfileError::OutOfRange {
        field: field.to_owned(),
        value,
        least,
        most,
    })
}
