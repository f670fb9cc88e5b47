//! What parameters occupy.
//!
//! A parameter that several segments of a layer use belongs to the first of them. One that the
//! embedding and the head share is tied. One that several layers share is counted in each: a
//! profile cannot say otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::subject::Facts;
use crate::plan::profile::WeightBytes;
use crate::runtime::parameters::ParameterInfo;
use crate::units::Bytes;

/// Of every segment of a range.
pub(super) fn of(facts: &[Facts], range: Range<usize>, optimizer_copies: u64) -> Vec<WeightBytes> {
    let mut seen = BTreeSet::new();
    let segments = facts[range].iter();
    segments
        .map(|segment| {
            let new = segment.parameters.iter();
            sum(
                new.filter(|p| seen.insert(p.path.as_str())),
                optimizer_copies,
            )
        })
        .collect()
}

/// What two ranges share.
pub(super) fn tied(
    facts: &[Facts],
    (first, second): (Range<usize>, Range<usize>),
    optimizer_copies: u64,
) -> WeightBytes {
    let by_path = |range: Range<usize>| -> BTreeMap<&str, &ParameterInfo> {
        let all = facts[range].iter().flat_map(|segment| &segment.parameters);
        all.map(|parameter| (parameter.path.as_str(), parameter))
            .collect()
    };
    let second = by_path(second);
    let both = by_path(first).into_iter();
    let both = both.filter(|(path, _)| second.contains_key(path));
    sum(both.map(|(_, parameter)| parameter), optimizer_copies)
}

fn sum<'a>(
    parameters: impl Iterator<Item = &'a ParameterInfo>,
    optimizer_copies: u64,
) -> WeightBytes {
    parameters.fold(WeightBytes::default(), |sum, parameter| {
        let learnt = if parameter.trainable {
            parameter.bytes
        } else {
            0
        };
        sum.plus(&WeightBytes {
            parameters: Bytes(parameter.bytes),
            gradients: Bytes(learnt),
            optimizer: Bytes(learnt.saturating_mul(optimizer_copies)),
        })
    })
}
