//! Ranks that are devices which sum by themselves: NCCL, through Burn.
//!
//! The sum runs on the devices' own communication stream, beside whatever is queued for computing
//! after it. A host cannot see when it is over, and need not: what is queued behind the resolved
//! tensor waits for it on the device. So here a sum is "under way" until somebody wants to wait for
//! it, and everything that the stage recomputes before that is queued beside it.

use std::cell::Cell;
use std::time::Instant;

use burn::prelude::*;

use super::collective::{Collective, CollectiveError, Parts};
use super::link::Way;
use crate::runtime::gradient::PendingSum;

/// One rank's end.
pub(crate) struct DeviceGroupMember {
    devices: Vec<Device>,
    pending: Vec<PendingSum>,
    waited: Cell<bool>,
}

/// The number of a CUDA device; nothing if it is none.
pub(crate) fn cuda_index(device: &Device) -> Option<usize> {
    /// Of one machine.
    const MOST: usize = 64;
    (0..MOST).find(|&index| *device == Device::cuda(index))
}

impl DeviceGroupMember {
    /// Of the group of these devices, one for each rank.
    pub(crate) fn new(devices: Vec<Device>) -> Self {
        Self {
            devices,
            pending: Vec::new(),
            waited: Cell::new(false),
        }
    }
}

impl Collective for DeviceGroupMember {
    fn start(&mut self, parts: Parts) -> Result<(), CollectiveError> {
        self.waited.set(false);
        let parts = parts.into_iter();
        self.pending = parts.map(|part| part.all_reduce(&self.devices)).collect();
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Way>, CollectiveError> {
        Ok(self.waited.get().then(|| Way::at_once(Instant::now())))
    }

    fn wait(&self, _until: Option<Instant>) -> Result<(), CollectiveError> {
        self.waited.set(true);
        Ok(())
    }

    fn take(&mut self) -> Result<Parts, CollectiveError> {
        let pending = std::mem::take(&mut self.pending).into_iter();
        Ok(pending.map(PendingSum::resolve).collect())
    }
}
