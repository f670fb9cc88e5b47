//! HEU where memory is too tight for it: as few layers as possible are replayed whole.
//!
//! HEU repeats no collective, so what comes out of one is kept: two boundaries a layer. A layer
//! that is replayed from its input with all its collectives, as Megatron-LM does it, keeps one,
//! and a lot of such layers keeps one together. That is slow, so it is done to as few layers as
//! will do, next to the stage's input, where it delays no other layer's windows; all others are
//! planned by HEU.

use std::time::Instant;

use super::baselines::Uniform;
use super::choice::{LayerGroup, Replay, SegmentChoice, StagePlan};
use super::evaluate::evaluate;
use super::heu::Heu;
use super::outcome::{Outcome, Planner};
use super::problem::StageProblem;
use crate::units::Bytes;

/// HEU, with some layers replayed whole where it finds no plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tight {
    /// What plans the other layers.
    pub heu: Heu,
}

/// Larger lots keep little less and make much more anew at once.
const MOST_TOGETHER: usize = 4;

impl Planner for Tight {
    fn name(&self) -> &str {
        "heu and replay"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let began = Instant::now();
        let plain = self.heu.plan(problem);
        if !matches!(plain, Outcome::Infeasible(_)) {
            return plain;
        }
        // What fits not even with all layers replayed does not fit with some.
        let all = Uniform::default().plan(problem);
        if all.feasible().is_none() {
            return all;
        }
        // The fewer layers are replayed, the less is exposed and the more is held: the least
        // number that fits is found by halving.
        let (mut too_few, mut enough, mut best) = (0, problem.layers, None);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            match self.best_with_replayed(problem, middle) {
                Some(plan) => (enough, best) = (middle, Some(plan)),
                None => too_few = middle,
            }
        }
        match best {
            Some(plan) => Outcome::of(problem, plan, false, began),
            None => all,
        }
    }
}

impl Tight {
    /// The best of all sizes of lots.
    fn best_with_replayed(&self, problem: &StageProblem, replayed: usize) -> Option<StagePlan> {
        let lots = (1..=MOST_TOGETHER.min(replayed)).filter_map(|together| {
            let plan = self.with_replayed(problem, replayed, together)?;
            let cost = evaluate(problem, &plan).ok()?;
            Some((cost.rank(problem), plan))
        });
        let best = lots.min_by_key(|(rank, _)| *rank);
        best.map(|(_, plan)| plan)
    }

    /// So many layers replayed, so many at once, and a plan for the others that may fit.
    fn with_replayed(
        &self,
        problem: &StageProblem,
        replayed: usize,
        together: usize,
    ) -> Option<StagePlan> {
        // What every micro-batch in flight keeps of them: the inputs of the lots, and notes.
        let input = problem.segments.first()?.kept_input.0;
        let lots = replayed.div_ceil(together) as u64;
        let notes = problem.segments.iter().map(|segment| segment.notes.0);
        let notes = notes.fold(0, u64::saturating_add);
        let kept = input
            .saturating_mul(lots)
            .saturating_add(notes.saturating_mul(replayed as u64))
            .saturating_mul(problem.in_flight);
        let others = StageProblem {
            layers: problem.layers - replayed,
            fixed: Bytes(problem.fixed.0.saturating_add(kept)),
            ..problem.clone()
        };
        let found = self.heu.plan(&others);
        let mut groups = vec![LayerGroup {
            layers: replayed,
            choices: vec![SegmentChoice::Exposed; problem.segments.len()],
            replay: Replay::Layers(together),
        }];
        groups.extend(found.feasible()?.plan.groups.iter().cloned());
        Some(StagePlan { groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cluster::Cluster;
    use crate::plan::planner::Setup;
    use crate::plan::planner::baselines::Block;
    use crate::plan::profile::Gpt;

    #[test]
    fn where_heu_fits_it_is_heu_and_below_that_never_worse_than_block_or_uniform() {
        let cluster: Cluster = "a100-40-pcie".parse().unwrap();
        let mut gpt = Gpt::new("4.7b".parse().unwrap());
        gpt.tensor_parallel = 4;
        gpt.micro_batch = 8;
        let profile = gpt.profile(&cluster.device).unwrap();
        let setup = Setup::new(&profile, &cluster, 2, 8);
        let roomy = setup.problem(0, 0..20).unwrap();
        let (mut between, mut below) = (0, 0);
        for quarter in 36..120 {
            let problem = roomy.with_budget(Bytes(quarter << 28));
            let found = |planner: &dyn Planner| {
                let outcome = planner.plan(&problem);
                let cost = outcome.feasible().map(|f| f.cost);
                cost.map(|cost| cost.exposed_step(&problem))
            };
            let (heu, tight) = (found(&Heu::default()), found(&Tight::default()));
            let others = [found(&Block::default()), found(&Uniform::default())];
            if heu.is_some() {
                assert_eq!(heu, tight);
                continue;
            }
            for other in others.into_iter().flatten() {
                between += 1;
                assert!(
                    tight.is_some_and(|own| own <= other),
                    "{quarter}: {tight:?} {other}"
                );
            }
            below += usize::from(tight.is_none());
        }
        assert!(between > 0 && below > 0, "{between} {below}");
    }
}
