//! From stages to their ranks: slices of the parameters, and groups to sum in.

use std::collections::{BTreeMap, BTreeSet};

use burn::prelude::*;

use super::held::Held;
use crate::ids::RankId;
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::Collective;
use crate::runtime::comm::group::group;
use crate::runtime::comm::mailbox::StopSignal;
use crate::runtime::comm::slow_group::SlowGroup;
use crate::runtime::comm::speed::LinkSpeed;
use crate::runtime::parameters;
use crate::runtime::shard::{self, ShardingError};

/// Who will hold what of these stages' parameters.
pub(super) fn held<C: Chain>(
    stages: &[C],
    tied: BTreeSet<String>,
    ranks: usize,
) -> Result<Held, ShardingError> {
    let mut sharding = BTreeMap::new();
    if ranks > 1 {
        let mut split = false;
        for stage in stages {
            split |= shard::check(stage, ranks)?;
            let all = parameters::list(stage).into_iter();
            sharding.extend(all.map(|found| {
                let sharding = stage.sharding(&found.path);
                (found.path, sharding)
            }));
        }
        if !split {
            return Err(ShardingError::NothingSplit { ranks });
        }
    }
    Ok(Held::new(ranks, tied, sharding))
}

/// Every worker's part of the model on its device, from whole stages.
pub(super) fn cut<C: Chain>(stages: Vec<C>, ranks: usize, devices: &[Device]) -> Vec<C> {
    if ranks == 1 {
        return stages;
    }
    let mut workers = Vec::with_capacity(devices.len());
    for (stage, devices) in stages.into_iter().zip(devices.chunks(ranks)) {
        for (rank, device) in devices.iter().enumerate() {
            let slices = shard::cut(stage.clone(), RankId(rank), ranks);
            workers.push(slices.fork(&device.clone().autodiff()));
        }
    }
    workers
}

/// Every worker's end of its stage's group.
pub(super) fn groups(
    devices: &[Device],
    ranks: usize,
    speed: Option<LinkSpeed>,
    stop: &StopSignal,
) -> Vec<Option<Box<dyn Collective>>> {
    if ranks == 1 {
        return devices.iter().map(|_| None).collect();
    }
    let stages = devices.chunks(ranks);
    let groups = stages.flat_map(|devices| {
        let members = members(devices, stop);
        members.into_iter().map(|member| match speed {
            Some(speed) => Box::new(SlowGroup::new(member, speed, ranks)) as Box<dyn Collective>,
            None => member,
        })
    });
    groups.map(Some).collect()
}

/// A group of workers on these devices.
pub(super) fn members(devices: &[Device], stop: &StopSignal) -> Vec<Box<dyn Collective>> {
    #[cfg(feature = "cuda")]
    if sum_by_themselves(devices) {
        use crate::runtime::comm::device_group::DeviceGroupMember;
        let member = |_| Box::new(DeviceGroupMember::new(devices.to_vec())) as Box<dyn Collective>;
        return devices.iter().map(member).collect();
    }
    let members = group(devices.len(), stop).into_iter();
    members
        .map(|member| Box::new(member) as Box<dyn Collective>)
        .collect()
}

/// Whether these are devices of their own that know a collective: CUDA's, through NCCL.
#[cfg(feature = "cuda")]
fn sum_by_themselves(devices: &[Device]) -> bool {
    use crate::runtime::comm::device_group::cuda_index;
    let found: Option<BTreeSet<usize>> = devices.iter().map(cuda_index).collect();
    found.is_some_and(|found| found.len() == devices.len())
}
