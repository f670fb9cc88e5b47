//! What stands early keeps the budget, and goes with its backward.

use burn::optim::SgdConfig;
use lynx_burn::memory::live_bytes;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::units::{Bytes, Nanos};
use lynx_burn::{Overlap, TrainerBuilder};
use lynx_tests::overlap::{batches, wide};

use super::{alone, device};

/// Case 9: what stands early must not break the budget that recomputation on demand would keep.
#[test]
fn a_budget_is_exceeded_only_where_recomputing_on_demand_exceeds_it_too() {
    alone(|| {
        let spec = wide();
        let model = spec.init(&device());
        let batches = batches(&spec, &[256; 6]);
        for (kind, stages) in [(Kind::OneFOneB, 2), (Kind::OneFOneB, 4), (Kind::GPipe, 2)] {
            let run = |overlap: Overlap, budget: Option<u64>| {
                let mut builder = TrainerBuilder::new()
                    .stages(stages)
                    .schedule(kind)
                    .policy(Policy::RecomputeAll)
                    .overlap(overlap)
                    .link("50MB/s,100us".parse().expect("a speed"));
                if let Some(budget) = budget {
                    builder = builder.memory_budget(Bytes(budget));
                }
                let mut trainer = builder
                    .train(model.clone(), SgdConfig::new().init())
                    .expect("it fits");
                // By step and stage. The first step is one of its own: it fills caches too.
                let mut peaks: Vec<Vec<u64>> = Vec::new();
                let mut hidden = Nanos(0);
                for _ in 0..3 {
                    let report = trainer.step(0.1, batches.clone()).expect("a step").backward;
                    let stages = report.stages.iter();
                    peaks.push(stages.map(|stage| stage.retained_peak.0).collect());
                    hidden = hidden.saturating_add(report.hidden());
                }
                (peaks, hidden)
            };
            let (on_demand, _) = run(Overlap::Never, None);
            let (unlimited, all) = run(Overlap::Opportunistic, None);
            assert!(all > Nanos(0));
            let mut budgets = vec![0];
            for (low, high) in on_demand[2].iter().zip(&unlimited[2]) {
                budgets.extend([low / 2, low * 9 / 10]);
                budgets.extend((0..=4).map(|quarters| low + (high - low) * quarters / 4));
            }
            let costs_memory = on_demand[2] != unlimited[2];
            assert!(costs_memory, "early recompute costs memory: {on_demand:?}");
            let (mut some, mut at_its_budget) = (0, 0);
            for budget in budgets {
                let (peaks, hidden) = run(Overlap::Opportunistic, Some(budget));
                for (peaks, on_demand) in peaks.iter().zip(&on_demand) {
                    for (peak, on_demand) in peaks.iter().zip(on_demand) {
                        let allowed = budget.max(*on_demand);
                        assert!(*peak <= allowed, "{kind} {budget}: {peak} {on_demand}");
                        at_its_budget += usize::from(*peak > *on_demand);
                    }
                }
                assert!(
                    budget > 0 || hidden == Nanos(0),
                    "nothing fits into nothing"
                );
                some += usize::from(hidden > Nanos(0));
            }
            assert!(at_its_budget > 0, "a budget is used");
            assert!(
                some >= 2,
                "a budget that is large enough lets recompute hide"
            );
        }
    });
}

/// Case 11: what was rebuilt early must go with its backward.
#[test]
fn nothing_is_left_of_early_recompute_after_a_step() {
    alone(|| {
        let spec = wide();
        let mut trainer = TrainerBuilder::new()
            .stages(3)
            .policy(Policy::RecomputeAll)
            .overlap(Overlap::Opportunistic)
            .link("50MB/s,100us".parse().expect("a speed"))
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        let batches = batches(&spec, &[256; 4]);
        let mut live = Vec::new();
        for _ in 0..10 {
            trainer.step(0.1, batches.clone()).expect("a step");
            live.push(live_bytes() as i64);
        }
        let hidden_state = 256 * 64 * 4;
        // The first step fills caches of threads and tables.
        let grown = live[9] - live[1];
        assert!(grown.abs() < hidden_state / 2, "{live:?}");
    });
}
