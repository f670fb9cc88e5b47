//! Which stream of random numbers a place in a training run reads.

use super::Philox4x32;
use super::philox::SIDE_BY_SIDE;

/// The name of one stream: a place in the model at a moment of the run.
///
/// Two different keys give streams that are, for all practical purposes, independent: seed, step,
/// micro-batch and segment are mixed by one Philox block into the key and half a counter word of
/// the stream, and the site and the position make up the rest of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    /// Seed of the whole run.
    pub seed: u64,
    /// Optimizer step.
    pub step: u64,
    /// Micro-batch within the step.
    pub micro_batch: u32,
    /// Segment of the chain, counted over the whole model, so that it does not depend on stages.
    pub segment: u32,
    /// Place inside the segment.
    pub site: u32,
}

/// A stream made ready for reading blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stream {
    generator: Philox4x32,
    site: u32,
    salt: u32,
}

impl StreamKey {
    /// Mixes the key once, so that each block costs one Philox evaluation.
    pub(crate) fn open(self) -> Stream {
        let seed = [self.seed as u32, (self.seed >> 32) as u32];
        let mixed = Philox4x32::new(seed).block([
            self.step as u32,
            (self.step >> 32) as u32,
            self.micro_batch,
            self.segment,
        ]);
        Stream {
            generator: Philox4x32::new([mixed[0], mixed[1]]),
            site: self.site,
            salt: mixed[2],
        }
    }
}

impl Stream {
    /// Key, site and salt: what a device needs to read the same stream.
    #[cfg(feature = "cube")]
    pub(crate) fn parts(self) -> [u32; 4] {
        let [first, second] = self.generator.key();
        [first, second, self.site, self.salt]
    }

    /// The words of elements `4 * index .. 4 * index + 4`.
    #[inline]
    pub(super) fn block(&self, index: u64) -> [u32; 4] {
        self.generator
            .block([index as u32, (index >> 32) as u32, self.site, self.salt])
    }

    /// The words of the next blocks, in order, two in each element.
    #[inline(always)]
    pub(super) fn blocks(&self, index: u64) -> [u64; 2 * SIDE_BY_SIDE] {
        let (mut low, mut high) = ([0; SIDE_BY_SIDE], [0; SIDE_BY_SIDE]);
        for (i, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
            let index = index.wrapping_add(i as u64);
            *low = index as u32;
            *high = (index >> 32) as u32;
        }
        self.generator.blocks(low, high, [self.site, self.salt])
    }
}

#[cfg(test)]
mod tests {
    use super::StreamKey;

    #[test]
    fn changing_any_part_of_the_key_changes_the_stream() {
        let base = StreamKey {
            seed: 1,
            step: 2,
            micro_batch: 3,
            segment: 4,
            site: 5,
        };
        let first = base.open().block(0);
        let others = [
            StreamKey { seed: 9, ..base },
            StreamKey {
                seed: 1 << 40,
                ..base
            },
            StreamKey { step: 9, ..base },
            StreamKey {
                step: 2 + (1 << 40),
                ..base
            },
            StreamKey {
                micro_batch: 9,
                ..base
            },
            StreamKey { segment: 9, ..base },
            StreamKey { site: 9, ..base },
        ];
        for other in others {
            assert_ne!(other.open().block(0), first, "{other:?}");
        }
        assert_ne!(base.open().block(1), first);
        assert_ne!(base.open().block(1 << 32), first);
    }
}
