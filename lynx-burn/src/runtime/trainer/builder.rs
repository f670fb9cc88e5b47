//! The decisions about a trainer.

use std::sync::Arc;
use std::time::Duration;

use burn::prelude::*;

use super::ScheduleSource;
use super::overlap::Overlap;
use crate::plan::advance::Advance;
use crate::plan::policy::Policy;
use crate::plan::schedule::{Kind, Schedule};
use crate::runtime::comm::speed::LinkSpeed;
use crate::runtime::exec::observer::Observer;
use crate::units::Bytes;

/// How a chain is cut into stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// So many stages with as equal numbers of layers as possible.
    Even(usize),
    /// So many layers on each stage.
    Layers(Vec<usize>),
    /// The first segment of each stage; may cut inside a layer.
    Starts(Vec<usize>),
}

/// What to do about a loss or a gradient that is not a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NonFinite {
    /// Return an error. No parameter is changed, and the trainer can go on.
    #[default]
    Error,
    /// Leave the update out and go on.
    SkipUpdate,
}

/// Collects the decisions about a [`Trainer`](super::Trainer); every one has a default.
#[derive(Clone)]
pub struct TrainerBuilder {
    pub(super) split: Split,
    pub(super) policy: Policy,
    pub(super) schedule: ScheduleSource,
    pub(super) devices: Vec<Device>,
    pub(super) ranks: usize,
    pub(super) replicas: usize,
    pub(super) replica_link: Option<LinkSpeed>,
    pub(super) collective_link: Option<LinkSpeed>,
    pub(super) mailbox_capacity: usize,
    pub(super) seed: u64,
    pub(super) clip_norm: Option<f64>,
    pub(super) non_finite: NonFinite,
    pub(super) stall_timeout: Duration,
    pub(super) single_threaded: bool,
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) link: Option<LinkSpeed>,
    pub(super) overlap: Overlap,
    pub(super) streams: bool,
    pub(super) ahead: Option<Vec<Vec<Advance>>>,
    /// One for all stages, or one for each.
    pub(super) memory_budgets: Vec<Bytes>,
}

impl Default for TrainerBuilder {
    fn default() -> Self {
        Self {
            split: Split::Even(1),
            policy: Policy::RetainAll,
            schedule: ScheduleSource::Kind(Kind::OneFOneB),
            devices: Vec::new(),
            ranks: 1,
            replicas: 1,
            replica_link: None,
            collective_link: None,
            mailbox_capacity: 1,
            seed: 0,
            clip_norm: None,
            non_finite: NonFinite::default(),
            // Compiling kernels for a first step can take minutes.
            stall_timeout: Duration::from_secs(600),
            single_threaded: false,
            observer: None,
            link: None,
            overlap: Overlap::default(),
            streams: false,
            ahead: None,
            memory_budgets: Vec::new(),
        }
    }
}

impl std::fmt::Debug for TrainerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainerBuilder")
            .field("split", &self.split)
            .field("policy", &self.policy)
            .field("schedule", &self.schedule)
            .field("devices", &self.devices)
            .field("ranks", &self.ranks)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

impl TrainerBuilder {
    /// The defaults: one stage on Burn's default device, nothing recomputed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So many stages, even in layers. Default: one.
    #[must_use]
    pub fn stages(self, stages: usize) -> Self {
        self.split(Split::Even(stages))
    }

    /// How the chain is cut into stages.
    #[must_use]
    pub fn split(mut self, split: Split) -> Self {
        self.split = split;
        self
    }

    /// What is recomputed. Default: nothing.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The kind of schedule. Default: 1F1B.
    #[must_use]
    pub fn schedule(mut self, kind: Kind) -> Self {
        self.schedule = ScheduleSource::Kind(kind);
        self
    }

    /// A complete schedule, transfers included and, of several replicas, the
    /// [reductions](crate::plan::schedule::reduce_gradients); each replica then has its number of
    /// micro-batches in a step. It is validated when the trainer is made.
    #[must_use]
    pub fn schedule_given(mut self, schedule: Schedule) -> Self {
        self.schedule = ScheduleSource::Given(Arc::new(schedule));
        self
    }

    /// So many tensor-parallel ranks share each stage, every one with a thread and its slices of the
    /// parameters ([`Chain::sharding`](crate::Chain::sharding)). Default: one.
    #[must_use]
    pub fn ranks(mut self, ranks: usize) -> Self {
        self.ranks = ranks;
        self
    }

    /// Gives the links between the ranks of a stage a bandwidth and a latency: a sum then takes the
    /// time of an all-reduce as [`Link::all_reduce_time`](crate::plan::cluster::Link::all_reduce_time)
    /// tells it. Default: none.
    #[must_use]
    pub fn collective_link(mut self, speed: LinkSpeed) -> Self {
        self.collective_link = Some(speed);
        self
    }

    /// So many replicas of the whole pipeline train together (data parallelism). Default: one.
    ///
    /// The micro-batches of a step are dealt to them in order, as many to each, so a step needs a
    /// multiple of the replicas. All run one schedule, and their gradients are summed behind the last
    /// backward of each stage: then each has the gradients of the whole step, up to rounding those of
    /// one replica, and makes the same update. What a replica draws at random is its micro-batches',
    /// whoever they are dealt to.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Gives the links between the replicas of a stage a bandwidth and a latency, as
    /// [`collective_link`](Self::collective_link) does for its ranks. Gradients of more than 16 MiB
    /// are several sums, one after the other. Default: none.
    #[must_use]
    pub fn replica_link(mut self, speed: LinkSpeed) -> Self {
        self.replica_link = Some(speed);
        self
    }

    /// One device for all stages, one for each, one for each rank of each stage, stage by stage, or
    /// as many again for each replica, replica by replica. Default: Burn's default device.
    #[must_use]
    pub fn devices(mut self, devices: impl IntoIterator<Item = Device>) -> Self {
        self.devices = devices.into_iter().collect();
        self
    }

    /// Messages that a mailbox between two stages holds. Default: 1. At 0, a stage that sends
    /// waits until its neighbour receives.
    #[must_use]
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.mailbox_capacity = messages;
        self
    }

    /// Gives the links between stages a bandwidth and a latency, each direction its own. Default:
    /// none, messages pass as fast as memory allows.
    #[must_use]
    pub fn link(mut self, speed: LinkSpeed) -> Self {
        self.link = Some(speed);
        self
    }

    /// What a stage recomputes while it waits for a neighbour. Default: nothing.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// On a device with streams (CubeCL: wgpu, CUDA), what is recomputed before its backward is queued
    /// on a stream beside the stage's own, on which transfers go on. The results are the same, bit for
    /// bit. Default: no.
    ///
    /// A sum over CUDA devices, which runs on the devices and not in the stage's thread, can then pass
    /// at the same time as the recompute. It costs four operations on one element each time, and the
    /// second stream has a memory pool of its own, so a device may reserve more than it uses. wgpu has
    /// one queue for all streams and gains nothing.
    #[must_use]
    pub fn streams(mut self, streams: bool) -> Self {
        self.streams = streams;
        self
    }

    /// Which segments may be recomputed before their backward, under [`Overlap::Planned`]: one list
    /// per stage with one entry per segment of that stage, as
    /// [`Plan::ahead`](crate::plan::planner::Plan::ahead) makes them. Of segments that are recomputed
    /// together, each from the one before it, those before the first that may not be are.
    #[must_use]
    pub fn ahead(mut self, allowed: Vec<Vec<Advance>>) -> Self {
        self.ahead = Some(allowed);
        self
    }

    /// The most bytes of boundaries and tapes that [`Overlap::Opportunistic`] may lead each stage
    /// to. Default: no limit.
    ///
    /// It limits what is recomputed early, not what the policy needs anyway. How much a run takes is
    /// known from the last time, and how much forwards will add, from the last step: with a
    /// micro-batch larger than any of that step, a peak may be above the budget once. Where memory
    /// cannot be read (see [`StageReport::tapes_measured`](crate::StageReport::tapes_measured)),
    /// nothing is recomputed early under a budget.
    #[must_use]
    pub fn memory_budget(self, retained: Bytes) -> Self {
        self.memory_budgets([retained])
    }

    /// The same with a limit for each stage, or one for all of them.
    #[must_use]
    pub fn memory_budgets(mut self, retained: impl IntoIterator<Item = Bytes>) -> Self {
        self.memory_budgets = retained.into_iter().collect();
        self
    }

    /// Seed of everything random in training. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Scales all gradients such that their norm, over all stages, is at most this. Default: none.
    #[must_use]
    pub fn clip_norm(mut self, norm: f64) -> Self {
        self.clip_norm = Some(norm);
        self
    }

    /// What to do about values that are not numbers. Default: an error.
    #[must_use]
    pub fn non_finite(mut self, reaction: NonFinite) -> Self {
        self.non_finite = reaction;
        self
    }

    /// How long a stage may stay inside one segment, or wait for neighbours that do not go on
    /// either, before it counts as stuck. Default: ten minutes.
    #[must_use]
    pub fn stall_timeout(mut self, time: Duration) -> Self {
        self.stall_timeout = time;
        self
    }

    /// Every stage, and every rank of one, computes on its own thread alone, however many cores there
    /// are. Default: all of them share Rayon's threads.
    ///
    /// On a CPU with a core for each, this keeps stages and ranks out of each other's way; what a
    /// stage takes is then what it takes alone.
    #[must_use]
    pub fn single_threaded(mut self, single: bool) -> Self {
        self.single_threaded = single;
        self
    }

    /// Tells `observer` of every action.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Where the first stage is: where inputs go.
    #[cfg(feature = "train")]
    pub(crate) fn first_device(&self) -> Device {
        self.devices.first().cloned().unwrap_or_default().inner()
    }
}
