//! A save has parameters and states whole, however many ranks held them in slices.

use std::path::Path;
use std::time::Duration;

use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::model::Gpt;
use lynx_burn::plan::policy::Policy;
use lynx_burn::{MicroBatch, Save, Saves, Trainer, TrainerBuilder};
use lynx_tests::gpts;
use lynx_tests::saves::Contents;
use lynx_tests::watchdog::within;

fn config() -> GptConfig {
    gpts::config(4, 0.1)
}

/// So many stages of so many ranks each.
fn trainer(seed: u64, (stages, ranks): (usize, usize), policy: &str) -> Trainer<Gpt> {
    let model = Gpt::new(&config(), seed, &Device::flex().autodiff()).expect("valid");
    let optimizer: ModuleOptimizer = AdamWConfig::new().with_weight_decay(0.1).init();
    TrainerBuilder::new()
        .stages(stages)
        .ranks(ranks)
        .policy(policy.parse::<Policy>().expect("a policy"))
        .clip_norm(1.0)
        .seed(7)
        .train(model, optimizer)
        .expect("it fits")
}

fn batches(step: u64) -> Vec<MicroBatch<Gpt>> {
    gpts::later_batches(&config(), 6, 3, step as usize * 97)
}

fn run(trainer: &mut Trainer<Gpt>, steps: std::ops::Range<u64>) -> Vec<f64> {
    let step = |step| trainer.step(0.01, batches(step)).expect("a step").loss();
    steps.map(step).collect()
}

fn save(trainer: &mut Trainer<Gpt>, folder: &Path) -> Save {
    trainer.save(&Saves::new(folder), &()).expect("saved")
}

#[test]
fn a_save_passes_through_any_number_of_ranks_unchanged() {
    within(Duration::from_secs(200), || {
        let folder = tempfile::tempdir().expect("a folder");
        let mut alone = trainer(3, (1, 1), "retain");
        run(&mut alone, 0..3);
        let first = save(&mut alone, &folder.path().join("first"));
        let contents = Contents::of(&first);
        for (stages, ranks) in [(1, 2), (2, 4), (2, 2), (1, 1)] {
            let mut other = trainer(4, (stages, ranks), "recompute");
            other.resume(&first).expect("of this model");
            let what = format!("{stages} stages of {ranks} ranks");
            let again = save(&mut other, &folder.path().join(&what));
            assert!(Contents::of(&again) == contents, "{what}");
        }
    });
}

#[test]
fn ranks_go_on_from_a_save_of_their_number_with_the_same_bits_and_of_another_within_rounding() {
    within(Duration::from_secs(200), || {
        let folder = tempfile::tempdir().expect("a folder");
        let mut unbroken = trainer(3, (1, 2), "recompute");
        run(&mut unbroken, 0..3);
        let middle = save(&mut unbroken, folder.path());
        let after = run(&mut unbroken, 3..7);

        let mut same = trainer(4, (1, 2), "selective:attention");
        same.resume(&middle).expect("of this model");
        assert_eq!(run(&mut same, 3..7), after);
        let [same, unbroken] = [&mut same, &mut unbroken].map(|t| t.parameters().expect("all"));
        assert_eq!(same, unbroken);

        for cut in [(1, 1), (2, 2), (1, 4), (4, 1)] {
            let mut other = trainer(4, cut, "retain");
            other.resume(&middle).expect("of this model");
            for (found, expected) in run(&mut other, 3..7).iter().zip(&after) {
                assert!(
                    (found - expected).abs() < 1e-4,
                    "{cut:?}: {found} {expected}"
                );
            }
        }
    });
}
