//! What an action works on, and how stages and chunks follow each other.
//!
//! An interleaved pipeline deals the model to its stages more than once: stage
//! `s` then holds several *chunks*, and the model passes through stage 0 to
//! `p - 1` with chunk 0, then through all of them again with chunk 1, and so on.
//! So stages form a ring, and a boundary that leaves the last stage goes to
//! stage 0. In every other pipeline there is one chunk, and the ring is open.

use std::fmt;

use crate::ids::{ChunkId, MicroBatchId, StageId};

/// One micro-batch on one chunk of a stage.
///
/// Schedules hold millions of these, one in every action, so it is packed: a
/// field can be read, but not borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed)]
pub struct Unit {
    /// The micro-batch.
    pub micro_batch: MicroBatchId,
    /// The chunk of the stage; 0 where a stage holds one.
    pub chunk: ChunkId,
}

impl From<MicroBatchId> for Unit {
    /// The micro-batch on chunk 0.
    fn from(micro_batch: MicroBatchId) -> Self {
        let chunk = ChunkId(0);
        Self { micro_batch, chunk }
    }
}

impl Unit {
    /// The same micro-batch on another chunk.
    pub fn on(self, chunk: ChunkId) -> Self {
        Self { chunk, ..self }
    }

    /// Reads `3` or `3.1`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        let (micro_batch, chunk) = match text.split_once('.') {
            Some((micro_batch, chunk)) => (micro_batch, number(chunk)?),
            None => (text, 0),
        };
        Some(Self {
            micro_batch: MicroBatchId(number(micro_batch)?),
            chunk: ChunkId(chunk),
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (micro_batch, chunk) = (self.micro_batch.0, self.chunk.0);
        match chunk {
            0 => write!(f, "{micro_batch}"),
            _ => write!(f, "{micro_batch}.{chunk}"),
        }
    }
}

/// How many stages a pipeline has, and how many chunks each holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The stages.
    pub stages: usize,
    /// The chunks of every stage.
    pub chunks: usize,
}

impl Shape {
    /// A pipeline whose stages hold one chunk each.
    pub fn plain(stages: usize) -> Self {
        Self { stages, chunks: 1 }
    }

    /// How many links join the stages: one between each two neighbours, and
    /// where there are several chunks, one from the last stage to the first.
    pub fn links(self) -> usize {
        match self.stages {
            0 | 1 => 0,
            stages if self.chunks > 1 => stages,
            stages => stages - 1,
        }
    }

    /// The place in the model of a stage's chunk: all stages' chunk 0 come
    /// first, in order, then all stages' chunk 1.
    pub fn index(self, stage: StageId, chunk: ChunkId) -> usize {
        let before = chunk.0.saturating_mul(self.stages);
        before.saturating_add(stage.0)
    }

    /// Where the boundary of a chunk goes; `None` at the end of the model.
    pub fn after(self, stage: StageId, chunk: ChunkId) -> Option<(StageId, ChunkId)> {
        let next = stage.0.checked_add(1)?;
        if next < self.stages {
            return Some((StageId(next), chunk));
        }
        let chunk = chunk.0.checked_add(1)?;
        (chunk < self.chunks).then_some((StageId(0), ChunkId(chunk)))
    }

    /// Where the boundary of a chunk comes from; `None` where the model begins.
    pub fn before(self, stage: StageId, chunk: ChunkId) -> Option<(StageId, ChunkId)> {
        if let Some(before) = stage.0.checked_sub(1) {
            return Some((StageId(before), chunk));
        }
        let last = self.stages.checked_sub(1)?;
        Some((StageId(last), ChunkId(chunk.0.checked_sub(1)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, Unit};
    use crate::ids::{ChunkId, MicroBatchId, StageId};

    #[test]
    fn a_unit_is_written_with_its_chunk_only_where_it_is_not_the_first() {
        let unit = Unit::from(MicroBatchId(3));
        assert_eq!(unit.to_string(), "3");
        assert_eq!(unit.on(ChunkId(2)).to_string(), "3.2");
        assert_eq!(Unit::parse("3.0"), Some(unit));
        for wrong in ["", ".", "3.", ".1", "3.1.1", "+3", "3.+1", "3,1"] {
            assert_eq!(Unit::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn following_the_boundary_visits_every_chunk_of_every_stage_in_model_order() {
        for (stages, chunks) in [(1, 1), (1, 3), (4, 1), (2, 2), (3, 4)] {
            let shape = Shape { stages, chunks };
            let mut at = (StageId(0), ChunkId(0));
            assert_eq!(shape.before(at.0, at.1), None);
            for index in 0..stages * chunks {
                assert_eq!(shape.index(at.0, at.1), index);
                let Some(next) = shape.after(at.0, at.1) else {
                    assert_eq!(index + 1, stages * chunks);
                    break;
                };
                assert_eq!(shape.before(next.0, next.1), Some(at));
                at = next;
            }
        }
    }
}
