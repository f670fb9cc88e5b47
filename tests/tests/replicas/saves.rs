//! A save holds one replica's parameters and states, and any number goes on from it.

use std::ops::Range;
use std::path::Path;

use gpt_example::model::Gpt;
use lynx_burn::{MicroBatch, Save, Saves, Trainer};
use lynx_tests::gpts::{config, later_batches};
use lynx_tests::saves::Contents;
use lynx_tests::watchdog::alone;

use super::{builder, trainer};

fn cut(replicas: usize, stages: usize, ranks: usize) -> Trainer<Gpt> {
    let builder = builder(replicas, stages, ranks).clip_norm(1.0);
    trainer(&config(2, 0.1), builder)
}

fn parts(step: u64) -> Vec<MicroBatch<Gpt>> {
    later_batches(&config(2, 0.1), 6, 6, step as usize * 97)
}

fn run(trainer: &mut Trainer<Gpt>, steps: Range<u64>) -> Vec<f64> {
    let step = |step| trainer.step(0.01, parts(step)).expect("a step").loss();
    steps.map(step).collect()
}

fn save(trainer: &mut Trainer<Gpt>, folder: &Path) -> Save {
    trainer.save(&Saves::new(folder), &()).expect("saved")
}

#[test]
fn a_save_passes_through_any_number_of_replicas_unchanged() {
    alone(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut first = cut(2, 2, 1);
        run(&mut first, 0..2);
        let first = save(&mut first, &folder.path().join("first"));
        let contents = Contents::of(&first);
        for (replicas, stages, ranks) in [(1, 1, 1), (3, 2, 1), (2, 1, 2)] {
            let mut other = cut(replicas, stages, ranks);
            other.resume(&first).expect("of this model");
            let what = format!("{replicas} x {stages} stages of {ranks} ranks");
            let again = save(&mut other, &folder.path().join(&what));
            assert!(Contents::of(&again) == contents, "{what}");
        }
    });
}

#[test]
fn as_many_replicas_go_on_with_the_same_bits_and_others_within_rounding() {
    alone(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut unbroken = cut(2, 1, 1);
        run(&mut unbroken, 0..2);
        let middle = save(&mut unbroken, folder.path());
        let after = run(&mut unbroken, 2..5);
        let go_on = |replicas, stages| {
            let mut other = cut(replicas, stages, 1);
            other.resume(&middle).expect("of this model");
            (run(&mut other, 2..5), other.parameters().expect("values"))
        };
        let (same, same_values) = go_on(2, 1);
        assert_eq!(same, after);
        assert_eq!(same_values, unbroken.parameters().expect("values"));
        // Of two stages, the embedding is added up in another order.
        for (replicas, stages) in [(1, 1), (3, 1), (2, 2)] {
            for (found, expected) in go_on(replicas, stages).0.iter().zip(&after) {
                assert!(
                    (found - expected).abs() < 1e-4,
                    "{replicas} x {stages}: {found} {expected}"
                );
            }
        }
    });
}
