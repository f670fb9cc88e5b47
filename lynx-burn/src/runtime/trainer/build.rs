//! From decisions and a model to stages at work.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use burn::optim::ModuleOptimizer;
use burn::prelude::*;

use super::overlap::Told;
use super::{BuildError, ScheduleSource, Split, Trainer, TrainerBuilder};
use super::{ranks, replicas};
use crate::plan::layout::{ChainLayout, Segment};
use crate::plan::partition::Partition;
use crate::plan::policy::StagePolicy;
use crate::plan::schedule::{InFlight, Rules, executable, validate};
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::Groups;
use crate::runtime::exec::crew::Crew;
use crate::runtime::exec::grid::Grid;
use crate::runtime::exec::position::Position;
use crate::runtime::parameters;
use crate::runtime::stage::{Stage, StageParts};

impl TrainerBuilder {
    /// Splits a model that exists.
    ///
    /// Parameters that Burn has not created yet (its modules create them on first use) are created
    /// on their stage's device, so the whole model need not fit on any one. Each stage gets a copy
    /// of `optimizer`.
    ///
    /// # Errors
    ///
    /// If the decisions do not fit the model.
    pub fn train<C: Chain>(
        self,
        model: C,
        optimizer: impl Into<ModuleOptimizer>,
    ) -> Result<Trainer<C>, BuildError> {
        let layout = self.layout(model.segments())?;
        let partition = self.partition(&layout)?;
        let devices = self.worker_devices(partition.stages())?;
        let pieces: Vec<C> = partition
            .ranges()
            .map(|range| model.clone().keep(range))
            .collect();
        // A parameter that two modules share is created where it is: let go of the whole first.
        drop(model);
        let pieces = pieces
            .into_iter()
            .zip(devices.iter().step_by(self.ranks))
            .map(|(piece, device)| piece.fork(&device.clone().autodiff()))
            .collect();
        self.assemble(layout, partition, devices, pieces, optimizer.into())
    }

    /// Builds each stage's part by itself: `make` is told which segments and on which device.
    ///
    /// Parameters with one name on several stages are tied: they start with the first stage's
    /// values.
    ///
    /// # Errors
    ///
    /// If the decisions do not fit the segments, or `make` fails.
    pub fn train_parts<C: Chain, E: From<BuildError>>(
        self,
        segments: Vec<Segment>,
        optimizer: impl Into<ModuleOptimizer>,
        mut make: impl FnMut(Range<usize>, &Device) -> Result<C, E>,
    ) -> Result<Trainer<C>, E> {
        let layout = self.layout(segments)?;
        let partition = self.partition(&layout)?;
        let devices = self.worker_devices(partition.stages())?;
        let pieces = partition
            .ranges()
            .zip(devices.iter().step_by(self.ranks))
            .map(|(range, device)| make(range, &device.clone().autodiff()))
            .collect::<Result<Vec<C>, E>>()?;
        Ok(self.assemble(layout, partition, devices, pieces, optimizer.into())?)
    }

    fn partition(&self, layout: &ChainLayout) -> Result<Partition, BuildError> {
        Ok(match &self.split {
            Split::Even(stages) => Partition::even(layout, *stages),
            Split::Layers(layers) => Partition::from_layers(layout, layers),
            Split::Starts(starts) => Partition::from_starts(layout, starts),
        }?)
    }

    /// The chain as these ranks see it.
    fn layout(&self, segments: Vec<Segment>) -> Result<ChainLayout, BuildError> {
        let layout = ChainLayout::new(segments)?;
        if self.replicas == 0 {
            return Err(BuildError::NoReplicas);
        }
        match self.ranks {
            0 => Err(BuildError::NoRanks),
            1 => Ok(layout.without_collectives()),
            _ => Ok(layout),
        }
    }

    fn assemble<C: Chain>(
        self,
        layout: ChainLayout,
        partition: Partition,
        devices: Vec<Device>,
        pieces: Vec<C>,
        optimizer: ModuleOptimizer,
    ) -> Result<Trainer<C>, BuildError> {
        if let Some(norm) = self.clip_norm
            && !(norm.is_finite() && norm > 0.0)
        {
            return Err(BuildError::ClipNorm(norm));
        }
        if let ScheduleSource::Given(schedule) = &self.schedule {
            let rules = Rules {
                mailbox_capacity: self.mailbox_capacity,
                in_flight: InFlight::Unlimited,
                backward: true,
                replicas: self.replicas,
            };
            validate(schedule, &rules)?;
            executable(schedule)?;
        }
        let policies = self.policy.resolve(&layout, &partition)?;
        let told = Told {
            overlap: self.overlap,
            ahead: self.ahead,
            budgets: self.memory_budgets,
        };
        let ahead = told.by_stage(&partition)?;
        let mut pieces: Vec<C> = pieces
            .into_iter()
            // Creates what was not, on the stage's device, and leaves autodiff's graph clean.
            .map(|piece| piece.valid().train())
            .collect();
        for (policy, piece) in policies.iter().zip(&pieces) {
            refuse_unrepeatable(&layout, policy, piece)?;
        }
        let tied = tie(&mut pieces)?;
        let first_trainable =
            first_trainable(&partition, &pieces).ok_or(BuildError::NothingTrainable)?;
        let held = ranks::held(&pieces, tied, self.ranks)?;
        let grid = Grid {
            replicas: self.replicas,
            stages: partition.stages(),
            ranks: self.ranks,
        };
        let positions: Vec<Arc<Position>> =
            devices.iter().map(|_| Arc::new(Position::new())).collect();
        let workers = ranks::cut(pieces, grid.ranks, &devices);
        let workers = replicas::copy(workers, grid, &devices);
        let workers = workers.into_iter().zip(&devices).zip(grid.seats());
        let workers = workers.map(|((module, device), (worker, seat))| {
            let stage = seat.stage.0;
            Stage::new(StageParts {
                id: seat.stage,
                replica: seat.replica,
                share: (seat.rank, grid.ranks),
                layout: &layout,
                device: device.clone(),
                module,
                policy: policies[stage].clone(),
                range: partition.range(seat.stage),
                first_trainable,
                optimizer: optimizer.clone(),
                seed: self.seed,
                ahead: ahead[stage].clone(),
                streams: self.streams,
                position: positions[worker].clone(),
            })
        });
        let how = (self.stall_timeout, self.single_threaded);
        let crew = Crew::start(workers.collect(), grid, positions, how)?;
        let stop = crew.stop_signal();
        let of_ranks = ranks::groups(&devices, grid.ranks, self.collective_link, stop);
        let of_replicas = replicas::groups(&devices, grid, self.replica_link, stop);
        let groups = of_ranks.into_iter().zip(of_replicas);
        Ok(Trainer {
            groups: groups
                .map(|(ranks, replicas)| Groups { ranks, replicas })
                .collect(),
            crew,
            grid,
            layout,
            partition,
            told,
            schedule: self.schedule,
            mailbox_capacity: self.mailbox_capacity,
            held,
            clip_norm: self.clip_norm,
            non_finite: self.non_finite,
            observer: self.observer,
            link: self.link,
            step: 0,
            schedules: HashMap::new(),
            loss_is_finite: true,
        })
    }
}

/// Fails if a recomputed segment holds a module that draws from Burn's generator or counts its
/// forwards.
pub(super) fn refuse_unrepeatable<C: Chain>(
    layout: &ChainLayout,
    policy: &StagePolicy,
    piece: &C,
) -> Result<(), BuildError> {
    for segment in policy.recomputed() {
        let module = piece.clone().keep(segment..segment + 1);
        if let Some((path, kind)) = parameters::training_flags(&module).into_iter().next() {
            return Err(BuildError::NotRepeatable {
                segment,
                name: layout.segments()[segment].name.clone(),
                advice: match kind.as_str() {
                    "Dropout" => "use lynx_burn::nn::Dropout",
                    "BatchNorm" => "use a layer or group normalisation",
                    _ => "draw from the context's streams (Context::next_stream)",
                },
                path,
                kind,
            });
        }
    }
    Ok(())
}

/// Finds parameters that several stages hold, by path, and gives them the first stage's values.
fn tie<C: Chain>(pieces: &mut [C]) -> Result<BTreeSet<String>, BuildError> {
    let mut holders: BTreeMap<String, Vec<(usize, Vec<usize>)>> = BTreeMap::new();
    for (stage, piece) in pieces.iter().enumerate() {
        for parameter in parameters::list(piece) {
            holders
                .entry(parameter.path)
                .or_default()
                .push((stage, parameter.dims));
        }
    }
    holders.retain(|_, stages| stages.len() > 1);
    for (path, stages) in &holders {
        let (first_stage, first) = &stages[0];
        if let Some((_, second)) = stages.iter().find(|(_, dims)| dims != first) {
            return Err(BuildError::TiedShapes {
                path: path.clone(),
                first: first.clone(),
                second: second.clone(),
            });
        }
        let mut value = None;
        parameters::visit(&pieces[*first_stage], |found, parameter| {
            if found == path {
                value = Some(parameter.value());
            }
        });
        for (stage, _) in &stages[1..] {
            if let Some(value) = value.clone() {
                let values = BTreeMap::from([(path.clone(), value)]);
                pieces[*stage] = parameters::replace(pieces[*stage].clone(), values);
            }
        }
    }
    Ok(holders.into_keys().collect())
}

/// The first segment of the chain that has something to learn.
fn first_trainable<C: Chain>(partition: &Partition, pieces: &[C]) -> Option<usize> {
    partition
        .ranges()
        .zip(pieces)
        .flat_map(|(range, piece)| range.map(move |segment| (segment, piece)))
        .find(|(segment, piece)| {
            let module = (*piece).clone().keep(*segment..segment + 1);
            parameters::list(&module)
                .iter()
                .any(|parameter| parameter.trainable)
        })
        .map(|(segment, _)| segment)
}
