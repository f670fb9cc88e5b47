//! The links between stages.

use std::num::NonZeroU64;

use crate::plan::planner::Setup;
use crate::plan::sim::costs::{ChannelCosts, LinkCosts};
use crate::units::Bytes;

/// One for each pair of neighbours. A gradient is as large as the boundary it is of.
pub(super) fn links(setup: &Setup, layers: &[usize]) -> Vec<LinkCosts> {
    let ranks = setup.profile.tensor_parallel;
    let mut end = 0_usize;
    let mut all = Vec::new();
    let borders = setup.stages.saturating_sub(1);
    for (stage, &count) in layers.iter().enumerate().take(borders) {
        end = end.saturating_add(count);
        let kind = end
            .checked_sub(1)
            .and_then(|last| setup.profile.kind_of(last));
        let boundary = kind.and_then(|kind| kind.segments.last());
        let link = setup.cluster.pipeline_link(stage, stage + 1, ranks);
        let channel = ChannelCosts {
            latency: link.latency,
            bytes: boundary.map_or(Bytes(0), |segment| segment.boundary),
            bytes_per_second: NonZeroU64::new((link.gb_s * 1e9) as u64),
        };
        all.push(LinkCosts {
            forward: channel,
            backward: channel,
        });
    }
    all
}
