//! What would fit, where a plan does not.
//!
//! Every change that a person could make is tried with the planner itself: one change at a time,
//! the smallest that is enough. What is offered has been planned and fits.

use lynx_burn::plan::planner::{Change, DealError, Heu, Plan, PlanError, Setup, Strategy};
use lynx_burn::plan::profile::Gpt as Formulas;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::units::Bytes;

use super::source::Source;
use super::stages::peak;

/// Whose options a change is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// Those of `gpt plan`.
    Plan,
    /// Those of `gpt train`, whose micro-batches have so many windows of text.
    Train {
        /// The windows of a micro-batch.
        windows: usize,
        /// The replicas that share the micro-batches of a step.
        replicas: usize,
    },
}

impl Wording {
    fn stages(self) -> &'static str {
        match self {
            Self::Plan => "--pp",
            Self::Train { .. } => "--stages",
        }
    }

    fn budget(self) -> &'static str {
        match self {
            Self::Plan => "--budget",
            Self::Train { .. } => "--memory-budget",
        }
    }

    /// Fewer or more micro-batches of the same size.
    fn micro_batches(self, count: u64) -> String {
        match self {
            Self::Plan => format!("--micro-batches {count}"),
            Self::Train { windows, replicas } => {
                let count = count.saturating_mul(replicas as u64);
                let batch = count.saturating_mul(windows as u64);
                format!("--micro-batches {count} --batch {batch}")
            }
        }
    }
}

/// Says by how much a setup does not fit, and what would; `None` for another kind of error.
pub(super) fn explain(
    source: &Source,
    setup: &Setup,
    strategy: &Strategy,
    (error, wording): (&PlanError, Wording),
) -> Option<String> {
    let PlanError::Deal(DealError::Infeasible {
        layers,
        stage,
        missing,
        nearest,
    }) = error
    else {
        return None;
    };
    let search = Search {
        source,
        setup,
        strategy,
        wording,
    };
    let mut text = format!(
        "{} finds no plan within {}: with {layers:?} layers stage {stage} is {missing} short \
         ({} bytes)",
        strategy.name(),
        setup.budget,
        missing.0,
    );
    let mut all = vec![
        search.heu(),
        search.schedule(),
        search.micro_batches(*nearest),
    ];
    all.extend([search.micro_batch(), search.stages(), search.ranks()]);
    all.push(search.budget(*missing));
    let found: Vec<Fitting> = all.into_iter().flatten().collect();
    if found.is_empty() {
        text += &format!("\nno single change fits; nearest: {nearest}");
        return Some(text);
    }
    text += "\neach of these fits:";
    let width = found.iter().map(|one| one.options.len()).max().unwrap_or(0);
    for Fitting {
        options,
        about,
        peak,
    } in found
    {
        text += &format!("\n  {options:<width$}  {about}: {peak} at most");
    }
    Some(text)
}

/// A change that fits.
struct Fitting {
    options: String,
    about: &'static str,
    peak: Bytes,
}

struct Search<'a> {
    source: &'a Source,
    setup: &'a Setup,
    strategy: &'a Strategy,
    wording: Wording,
}

impl Search<'_> {
    /// The most that a device holds, if a setup has a plan.
    fn peak(&self, setup: &Setup) -> Option<Bytes> {
        let plan = match self.strategy.name() {
            // Both begin with this; what else they do makes no plan fit.
            "heu" | "opt" => Plan::new(setup, &Heu::default()),
            _ => self.strategy.plan(setup),
        };
        plan.ok().map(|plan| peak(&plan))
    }

    fn try_out(&self, setup: &Setup, options: String, about: &'static str) -> Option<Fitting> {
        let peak = self.peak(setup)?;
        Some(Fitting {
            options,
            about,
            peak,
        })
    }

    fn heu(&self) -> Option<Fitting> {
        if matches!(self.strategy.name(), "heu" | "opt") {
            return None;
        }
        let plan = Plan::new(self.setup, &Heu::default()).ok()?;
        Some(Fitting {
            options: "--strategy heu".to_owned(),
            about: "another choice of what is recomputed",
            peak: peak(&plan),
        })
    }

    fn schedule(&self) -> Option<Fitting> {
        if self.setup.schedule == Kind::OneFOneB {
            return None;
        }
        let schedule = Kind::OneFOneB;
        let setup = Setup {
            schedule,
            ..self.setup.clone()
        };
        self.try_out(&setup, format!("--schedule {schedule}"), "fewer in flight")
    }

    /// The most micro-batches that fit, by halving what the planner suggests.
    fn micro_batches(&self, nearest: Change) -> Option<Fitting> {
        let Change::InFlight(most) = nearest else {
            return None;
        };
        let counts = std::iter::successors(Some(most), |&count| Some(count / 2));
        let mut counts = counts.take_while(|&count| count > 0);
        counts.find_map(|micro_batches| {
            let setup = Setup {
                micro_batches,
                ..self.setup.clone()
            };
            let options = self.wording.micro_batches(micro_batches);
            self.try_out(&setup, options, "fewer in flight")
        })
    }

    /// Halves the micro-batch, and doubles their number: the step stays the same.
    fn micro_batch(&self) -> Option<Fitting> {
        let gpt = self.source.formulas.as_ref()?;
        let halves = |&size: &u64| size.is_multiple_of(2).then_some(size / 2);
        let mut sizes = std::iter::successors(halves(&gpt.micro_batch), halves);
        sizes.find_map(|micro_batch| {
            let micro_batches = self.setup.micro_batches * (gpt.micro_batch / micro_batch);
            let smaller = Formulas {
                micro_batch,
                ..gpt.clone()
            };
            let setup = Setup {
                micro_batches,
                ..self.with(&smaller)?
            };
            let options = format!("--micro-batch {micro_batch} --micro-batches {micro_batches}");
            self.try_out(&setup, options, "smaller micro-batches, the same step")
        })
    }

    fn stages(&self) -> Option<Fitting> {
        let layers = self.setup.profile.layer_count();
        let more = |&stages: &usize| (stages < layers).then(|| (2 * stages).min(layers));
        let mut counts = std::iter::successors(more(&self.setup.stages), more);
        counts.find_map(|stages| {
            let setup = Setup {
                stages,
                ..self.setup.clone()
            };
            let options = format!("{} {stages}", self.wording.stages());
            self.try_out(&setup, options, "more stages")
        })
    }

    fn ranks(&self) -> Option<Fitting> {
        let gpt = self.source.formulas.as_ref()?;
        let more = |&ranks: &u64| (ranks < gpt.size.heads).then_some(2 * ranks);
        let mut counts = std::iter::successors(more(&gpt.tensor_parallel), more);
        counts.find_map(|tensor_parallel| {
            let wider = Formulas {
                tensor_parallel,
                ..gpt.clone()
            };
            let setup = self.with(&wider)?;
            self.try_out(&setup, format!("--tp {tensor_parallel}"), "more ranks")
        })
    }

    /// What is missing, rounded up to a mebibyte.
    fn budget(&self, missing: Bytes) -> Option<Fitting> {
        let needed = self.setup.budget.0.saturating_add(missing.0);
        let mebibytes = needed.div_ceil(1 << 20);
        let setup = Setup {
            budget: Bytes(mebibytes << 20),
            ..self.setup.clone()
        };
        let options = format!("{} {mebibytes}MiB", self.wording.budget());
        self.try_out(&setup, options, "more memory")
    }

    /// The setup with another profile; `None` where there is no such model.
    fn with(&self, gpt: &Formulas) -> Option<Setup> {
        let profile = gpt.profile(&self.source.cluster.device).ok()?;
        Some(Setup {
            profile,
            ..self.setup.clone()
        })
    }
}
