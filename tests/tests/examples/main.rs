//! The examples of `lynx-burn` do what they say: they learn, and a run that was killed ends as one
//! that was not.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use burn::prelude::*;
use lynx_burn::{Save, Saves, StepReport};
use lynx_tests::saves::Contents;
use lynx_tests::watchdog::within;

#[path = "../../../lynx-burn/examples/book_model.rs"]
#[allow(dead_code, reason = "what its main does, the tests do by themselves")]
mod book_model;
#[path = "../../../lynx-burn/examples/residual_mlp.rs"]
#[allow(dead_code, reason = "what its main does, the tests do by themselves")]
mod residual_mlp;

/// Trains in a folder up to a step; returns the loss of every step taken.
type Train = fn(&Path, u64) -> Vec<f64>;

fn losses(
    train: impl FnOnce(&mut dyn FnMut(u64, &StepReport)) -> Result<(), Box<dyn Error>>,
) -> Vec<f64> {
    let mut losses = Vec::new();
    train(&mut |_, report| losses.push(report.loss())).expect("it trains");
    losses
}

fn last(folder: &Path) -> Save {
    Saves::new(folder).latest().expect("a save")
}

/// Removes the newest save and leaves half of another, as a kill would.
fn kill_before_the_last_save(folder: &Path) {
    let newest = last(folder);
    let torn = folder.join("000099-step-1.part");
    std::fs::create_dir(&torn).expect("created");
    std::fs::copy(newest.weights(), torn.join("weights.safetensors")).expect("copied");
    std::fs::remove_dir_all(newest.path()).expect("removed");
}

fn learns_and_goes_on(train: Train, steps: u64, left: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let unbroken = train(folder.path(), steps);
    assert_eq!(unbroken.len() as u64, steps);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (first, end) = (
        mean(&unbroken[..10]),
        mean(&unbroken[unbroken.len() - 10..]),
    );
    assert!(end < 0.7 * first, "{first} to {end}");
    let expected = Contents::of(&last(folder.path()));

    kill_before_the_last_save(folder.path());
    let resumed = train(folder.path(), steps);
    assert_eq!(resumed, unbroken[unbroken.len() - left..]);
    let found = Contents::of(&last(folder.path()));
    assert!(found == expected, "{} {}", found.header, expected.header);
    let more = train(folder.path(), steps);
    assert!(more.is_empty(), "nothing is left to do: {more:?}");
}

#[test]
fn the_residual_mlp_learns_and_a_killed_run_ends_as_an_unbroken_one() {
    within(Duration::from_secs(200), || {
        let train: Train = |folder, steps| losses(|tell| residual_mlp::train(folder, steps, tell));
        learns_and_goes_on(train, 120, 20);
    });
}

#[test]
fn the_books_model_learns_and_a_killed_run_ends_as_an_unbroken_one() {
    within(Duration::from_secs(200), || {
        let train: Train =
            |folder, steps| losses(|tell| book_model::train(folder, steps, tell).map(drop));
        learns_and_goes_on(train, 60, 20);
    });
}

#[test]
fn a_damaged_save_is_an_error_and_not_a_run_begun_anew() {
    within(Duration::from_secs(100), || {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("nothing/here");
        let mut trainer = residual_mlp::trainer().expect("it fits");
        assert_eq!(trainer.resume_from(&missing).expect("no save"), None);
        assert_eq!(trainer.resume_from(folder.path()).expect("no save"), None);
        let save = trainer.save_to(folder.path()).expect("saved");
        let found = trainer.resume_from(folder.path()).expect("whole");
        assert_eq!(found, Some(save.clone()));
        std::fs::write(save.weights(), b"nothing of the kind").expect("written");
        let error = trainer.resume_from(folder.path()).expect_err("damaged");
        assert!(error.to_string().contains("damaged"), "{error}");
        std::fs::remove_file(save.weights()).expect("removed");
        let error = trainer.resume_from(folder.path()).expect_err("incomplete");
        assert!(error.to_string().contains("weights.safetensors"), "{error}");
    });
}

#[test]
fn the_books_forward_and_its_chain_give_the_same_scores() {
    within(Duration::from_secs(100), || {
        let model = book_model::Model::new(&Device::default());
        let input = book_model::pictures(&[3, 4, 5, 6, 7, 8]).input;
        let expected = model.forward(input.clone()).into_data();
        let mut trainer = book_model::builder()
            .train(model, burn::optim::SgdConfig::new().init())
            .expect("it fits");
        let found = trainer.predict(input).expect("scores").into_data();
        assert_eq!(found, expected);
    });
}
