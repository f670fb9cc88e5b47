//! Why a run may take another time, or hold more or less, than its plan says.

use lynx_burn::measure::{Measured, MeasuredSegment, Spread};
use lynx_burn::plan::planner::Plan;
use lynx_burn::units::Nanos;

use super::outcome::Outcome;
use crate::cli::{OverlapKind, TrainArgs};
use crate::plan::Subject;
use crate::table::duration;

/// Fewer steps than these have no median worth the name.
const FEW: usize = 5;
/// Segments that take by this share more or less than before show that the machine has changed.
const OTHER_MACHINE: f64 = 0.03;

/// What of a run bears on how well it can be predicted.
#[derive(Clone, Debug)]
pub(super) struct Circumstances {
    overlap: OverlapKind,
    workers: usize,
    /// Cores that each was measured with, if not all.
    cores_of_each: Option<usize>,
    one_core_each: bool,
    /// Cores of this machine.
    cores: usize,
    /// Options that would give links a speed which is guessed without.
    guessed_links: Vec<&'static str>,
    /// Whether some micro-batches are smaller than what was measured.
    uneven: bool,
}

impl Circumstances {
    /// Of a run with these options under a plan.
    pub(super) fn of(args: &TrainArgs, subject: &Subject, plan: &Plan) -> Self {
        let (ranks, stages) = (subject.ranks, plan.setup.stages);
        let replicas = args.overlap.replicas;
        let links = [
            ("--link", stages > 1 && args.pipeline.link.is_none()),
            (
                "--collective-link",
                ranks > 1 && args.overlap.collective_link.is_none(),
            ),
            (
                "--replica-link",
                replicas > 1 && args.overlap.replica_link.is_none(),
            ),
        ];
        let guessed = links.into_iter().filter(|(_, guessed)| *guessed);
        let (batch, micro_batches) = (args.training.batch(), args.pipeline.micro_batches);
        Self {
            overlap: args.overlap.overlap.unwrap_or(OverlapKind::Planned),
            workers: stages * ranks * replicas,
            cores_of_each: subject.cores,
            one_core_each: args.overlap.one_core_each,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            guessed_links: guessed.map(|(option, _)| option).collect(),
            uneven: !batch.is_multiple_of(micro_batches),
        }
    }

    /// What is known to have made a difference, or may have. `now` is measured after the run.
    pub(super) fn reasons(
        &self,
        outcome: &Outcome,
        then: &Measured,
        now: Option<&Measured>,
    ) -> Vec<String> {
        let mut all = Vec::new();
        if outcome.times_differ() {
            all.extend(self.of_time(outcome, then, now));
        }
        if outcome.bytes_differ() {
            all.extend(self.of_bytes(outcome, then));
        }
        if self.uneven {
            all.push("micro-batches are of two sizes, and the larger one was measured".to_owned());
        }
        all
    }

    fn of_time(&self, outcome: &Outcome, then: &Measured, now: Option<&Measured>) -> Vec<String> {
        let mut all = Vec::new();
        if outcome.steps < FEW {
            all.push(format!("only {} steps were counted", outcome.steps));
        }
        if let Some((name, share)) = widest(then) {
            all.push(format!(
                "the measured times vary: half of those of {name} lie more than {:.0} % off",
                100.0 * share
            ));
        }
        if let Some(ratio) = now.map(|now| slower(then, now))
            && (ratio - 1.0).abs() > OTHER_MACHINE
        {
            all.push(format!(
                "segments that are measured again now take {ratio:.2} x what they took before the \
                 run: other work on the machine, or another clock"
            ));
        }
        if let Some(others) = others(self.workers, self.cores) {
            all.push(others);
        }
        let (predicted, measured) = (&outcome.predicted, &outcome.measured);
        let overrun = measured.exposed.saturating_sub(predicted.exposed);
        let hidden_less = predicted.hidden.saturating_sub(measured.hidden);
        if overrun > Nanos::ZERO && hidden_less > Nanos::ZERO {
            all.push(format!(
                "{} of recompute ended after its window, or did not begin in it",
                duration(overrun.min(hidden_less))
            ));
        }
        all.extend(self.of_cores());
        if self.overlap == OverlapKind::Opportunistic {
            all.push(
                "--overlap opportunistic recomputes where it waits, not where it is planned"
                    .to_owned(),
            );
        }
        for option in &self.guessed_links {
            all.push(format!(
                "how fast threads pass tensors is guessed; {option} makes it a known speed"
            ));
        }
        all.push(
            "what lies between segments is not measured: handing tensors over, bookkeeping, \
             waking threads"
                .to_owned(),
        );
        all
    }

    fn of_cores(&self) -> Option<String> {
        let (workers, cores) = (self.workers, self.cores);
        let each = self.cores_of_each?;
        if workers * each > cores {
            return Some(format!(
                "{workers} threads, one for each stage, rank and replica, share {cores} cores, and \
                 each was measured with {each} for itself"
            ));
        }
        (!self.one_core_each).then(|| {
            "stages and ranks share all cores, and each was measured with its share of them: \
             --one-core-each keeps them apart"
                .to_owned()
        })
    }

    fn of_bytes(&self, outcome: &Outcome, then: &Measured) -> Vec<String> {
        let mut all = Vec::new();
        let less = |(predicted, measured)| measured < predicted;
        if !then.bytes_from.tapes_measured() {
            all.push("tapes cannot be seen on this device, and their bytes are guesses".to_owned());
        } else if outcome.activations().any(less) {
            all.push(
                "a rehearsal fills every window; where a wait was too short for what was planned in \
                 it, less was there at one time"
                    .to_owned(),
            );
        }
        if !outcome.activations().all(less) && self.overlap == OverlapKind::Opportunistic {
            all.push("--overlap opportunistic uses what the plan leaves of the budget".to_owned());
        }
        all
    }
}

/// Whether other programs want the cores, where the system tells.
fn others(workers: usize, cores: usize) -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let own = workers.min(cores) as f64;
    (load > own + 1.0).then(|| {
        format!(
            "in the last minute {load:.1} threads on average wanted to run on {cores} cores, \
             {own} of them this program's"
        )
    })
}

/// The segment whose times lie farthest apart, and half the distance of their quartiles as a share
/// of the median, if that is more than a twentieth. Segments of less than a twentieth of all time
/// are not looked at.
fn widest(measured: &Measured) -> Option<(&str, f64)> {
    let segments = &measured.segments;
    let time = |segment: &MeasuredSegment| segment.forward.median.0 + segment.backward.median.0;
    let all: u64 = segments.iter().map(time).sum();
    let share = |spread: &Spread| {
        let half = spread.upper.saturating_sub(spread.lower).0 as f64 / 2.0;
        half / spread.median.0.max(1) as f64
    };
    let large = segments.iter().filter(|segment| time(segment) * 20 >= all);
    let shares = large.map(|segment| {
        let share = share(&segment.forward).max(share(&segment.backward));
        (segment.costs.name.as_str(), share)
    });
    let widest = shares.max_by(|a, b| a.1.total_cmp(&b.1));
    widest.filter(|(_, share)| *share > 0.05)
}

/// How long all segments take now, as a share of what they took then.
fn slower(then: &Measured, now: &Measured) -> f64 {
    let total = |measured: &Measured| -> u64 {
        let segments = measured.profile.segments();
        let each = segments.map(|segment| segment.forward.0 + segment.backward().0);
        each.sum()
    };
    total(now) as f64 / total(then).max(1) as f64
}
