//! Replicas of the whole pipeline: who gets which micro-batches, and where their gradients meet.

use std::ops::Range;

use burn::prelude::*;

use super::ranks::members;
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::Collective;
use crate::runtime::comm::mailbox::StopSignal;
use crate::runtime::comm::slow_group::SlowGroup;
use crate::runtime::comm::speed::LinkSpeed;
use crate::runtime::exec::grid::Grid;

/// The micro-batches of each replica, in order: the first replica has the first ones.
///
/// So gradients are added up in the order of the micro-batches, within a replica as over them. Where
/// the numbers do not divide, the first replicas have one more.
pub(super) fn deal(micro_batches: usize, replicas: usize) -> Vec<Range<usize>> {
    let (each, more) = (micro_batches / replicas, micro_batches % replicas);
    let begin = |replica: usize| replica * each + replica.min(more);
    (0..replicas)
        .map(|replica| begin(replica)..begin(replica + 1))
        .collect()
}

/// Every worker's part of the model on its device, from the first replica's.
pub(super) fn copy<C: Chain>(first: Vec<C>, grid: Grid, devices: &[Device]) -> Vec<C> {
    let mut workers = first;
    for worker in grid.pipeline()..grid.workers() {
        let original = &workers[worker % grid.pipeline()];
        let copy = original.clone().fork(&devices[worker].clone().autodiff());
        workers.push(copy);
    }
    workers
}

/// Every worker's end of the group of all replicas' workers in its place; nothing for one replica.
pub(super) fn groups(
    devices: &[Device],
    grid: Grid,
    speed: Option<LinkSpeed>,
    stop: &StopSignal,
) -> Vec<Option<Box<dyn Collective>>> {
    let mut groups: Vec<Option<Box<dyn Collective>>> = devices.iter().map(|_| None).collect();
    if grid.replicas == 1 {
        return groups;
    }
    for place in 0..grid.pipeline() {
        let own = (place..grid.workers()).step_by(grid.pipeline());
        let of_place: Vec<Device> = own.clone().map(|worker| devices[worker].clone()).collect();
        for (worker, member) in own.zip(members(&of_place, stop)) {
            groups[worker] = Some(match speed {
                Some(speed) => Box::new(SlowGroup::new(member, speed, grid.replicas)),
                None => member,
            });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_are_dealt_in_order_and_as_evenly_as_they_can_be() {
        let dealt = |micro_batches, replicas| -> Vec<(usize, usize)> {
            let shares = deal(micro_batches, replicas).into_iter();
            shares.map(|share| (share.start, share.end)).collect()
        };
        assert_eq!(dealt(6, 1), [(0, 6)]);
        assert_eq!(dealt(6, 3), [(0, 2), (2, 4), (4, 6)]);
        assert_eq!(dealt(7, 3), [(0, 3), (3, 5), (5, 7)]);
        assert_eq!(dealt(1, 3), [(0, 1), (1, 1), (1, 1)]);
    }
}
