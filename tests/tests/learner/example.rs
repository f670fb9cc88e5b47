//! The example `learner` of `lynx-burn`.

use std::time::Duration;

use burn::train::Interrupter;
use lynx_burn::learner::Learnable;
use lynx_tests::watchdog::within;

use crate::seen::Impatient;

#[path = "../../../lynx-burn/examples/learner.rs"]
#[allow(dead_code, reason = "what its main does, the test does by itself")]
mod learner;

#[test]
fn the_example_learns_to_name_pictures_and_leaves_burns_files() {
    within(Duration::from_secs(200), || {
        let folder = tempfile::tempdir().expect("a folder");
        let still = Impatient {
            items: usize::MAX,
            interrupter: Interrupter::new(),
        };
        let result = learner::train(folder.path(), Some(Box::new(still))).expect("it trains");
        assert!(result.error.is_none() && result.interrupted.is_none());
        // An epoch is twenty steps; early stopping needs three epochs at least.
        let steps = result.model.steps();
        assert!(
            steps.is_multiple_of(20) && (60..=200).contains(&steps),
            "{steps}"
        );
        let right = learner::named_rightly(&Learnable::into_inner(result.model));
        assert!(right > 0.9, "{right}");
        let last = steps / 20;
        for file in [
            format!("checkpoint/model-{last}.bpk"),
            format!("checkpoint/optim-{last}.bpk"),
            format!("train/epoch-{last}/Loss.log"),
            format!("train/epoch-{last}/Retained.log"),
            "valid/epoch-1/Loss.log".to_owned(),
        ] {
            assert!(folder.path().join(&file).is_file(), "{file}");
        }
    });
}
