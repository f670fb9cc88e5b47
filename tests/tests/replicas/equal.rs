//! Losses, gradients and parameters are those of one replica.

use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::{Overlap, Trainer};
use lynx_tests::gpts::{batches, config, later_batches};
use lynx_tests::oracle::{
    Plain, assert_close, assert_same_bytes, gradient_bytes, parameter_values,
};
use lynx_tests::watchdog::alone;

use burn::optim::AdamWConfig;
use gpt_example::chain::Activations;
use gpt_example::model::Gpt;
use lynx_tests::gpts::gpt;

use super::{backward, builder, trainer};

/// With micro-batches of two sizes, and dropout.
#[test]
fn replicas_give_the_losses_and_gradients_of_one() {
    alone(|| {
        let config = config(2, 0.1);
        let batches = batches(&config, 7, 6);
        for (stages, ranks) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
            let mut single = trainer(&config, builder(1, stages, ranks));
            let (report, expected) = backward(&mut single, &batches);
            for replicas in [2, 3] {
                for (kind, capacity) in [(Kind::OneFOneB, 1), (Kind::OneFOneB, 0), (Kind::GPipe, 1)]
                {
                    let what = format!("{replicas} x p={stages} tp={ranks} {kind} {capacity}");
                    let builder = builder(replicas, stages, ranks);
                    let builder = builder.schedule(kind).mailbox_capacity(capacity);
                    let mut trainer = trainer(&config, builder);
                    let (found, gradients) = backward(&mut trainer, &batches);
                    // A micro-batch by itself is the same wherever it goes.
                    assert_eq!(found.losses, report.losses, "{what}");
                    assert_eq!(found.loss, report.loss, "{what}");
                    assert!(gradients.keys().eq(expected.keys()), "{what}");
                    for (path, expected) in &expected {
                        assert_close(&format!("{what}: {path}"), &gradients[path], expected, 1e-6);
                    }
                    assert_eq!(found.stages.len(), replicas * stages * ranks, "{what}");
                    let left: u64 = found.stages.iter().map(|s| s.retained.0).sum();
                    assert_eq!(left, 0, "{what}");
                }
            }
        }
    });
}

/// The order of additions is that of one replica then.
#[test]
fn replicas_of_one_micro_batch_each_give_the_bits_of_one() {
    alone(|| {
        let config = config(2, 0.1);
        let batches = batches(&config, 4, 3);
        for (stages, ranks) in [(1, 1), (2, 1), (2, 2)] {
            let what = format!("p={stages} tp={ranks}");
            let mut single = trainer(&config, builder(1, stages, ranks));
            let mut three = trainer(&config, builder(3, stages, ranks));
            let (report, expected) = backward(&mut single, &batches);
            let (found, gradients) = backward(&mut three, &batches);
            assert_eq!(found.losses, report.losses, "{what}");
            assert_same_bytes(&what, &gradients, &expected);
        }
    });
}

#[test]
fn one_replica_gives_the_bits_of_plain_burn() {
    alone(|| {
        let config = config(2, 0.1);
        let batches = batches(&config, 5, 3);
        let plain = Plain::new(gpt(&config), AdamWConfig::new().init(), 9);
        let step = plain.backward(&batches);
        let expected = gradient_bytes(&plain.model, &step.gradients);
        let mut trainer = trainer(&config, builder(1, 1, 1));
        let (report, found) = backward(&mut trainer, &batches);
        assert_eq!(report.losses, step.losses);
        assert_same_bytes("one replica", &found, &expected);
    });
}

/// All replicas' parameters, byte by byte; there are several replicas.
fn assert_equal_replicas(trainer: &mut Trainer<Gpt>, what: &str) {
    let modules = trainer.modules().expect("modules");
    let each = modules.len() / trainer.replicas();
    assert!(each * 2 <= modules.len() && each * trainer.replicas() == modules.len());
    for (place, first) in modules[..each].iter().enumerate() {
        let first = parameter_values(first);
        for other in modules[each + place..].iter().step_by(each) {
            assert_same_bytes(
                &format!("{what}, {place}"),
                &parameter_values(other),
                &first,
            );
        }
    }
}

/// Clipped steps, with what is recomputed changed in between.
#[test]
fn replicas_hold_the_same_bytes_step_after_step() {
    alone(|| {
        let config = config(2, 0.1);
        let recompute: Policy = "recompute".parse().expect("a policy");
        for (replicas, stages, ranks) in [(2, 1, 1), (3, 2, 1), (2, 2, 2)] {
            let what = format!("{replicas} x p={stages} tp={ranks}");
            let make = |replicas| trainer(&config, builder(replicas, stages, ranks).clip_norm(0.5));
            let (mut several, mut single) = (make(replicas), make(1));
            assert_equal_replicas(&mut several, &what);
            for step in 0..4 {
                if step == 2 {
                    let told = several.replan(&recompute, Overlap::Opportunistic, None);
                    told.expect("it fits");
                }
                let batches = later_batches(&config, 7, 6, step * 97);
                let found = several.step(1e-2, batches.clone()).expect("a step");
                let expected = single.step(1e-2, batches).expect("a step");
                let norms = [&found, &expected].map(|report| report.update.gradient_norm);
                let [norm, other] = norms.map(|norm| norm.expect("clipping"));
                assert!(norm > 0.5 && (norm - other).abs() < 1e-3 * other, "{what}");
                let (loss, other) = (found.loss(), expected.loss());
                assert!((loss - other).abs() < 1e-4, "{what} {step}: {loss} {other}");
                assert_equal_replicas(&mut several, &what);
            }
        }
    });
}

#[test]
fn gradients_of_two_backwards_add_up_once() {
    alone(|| {
        let config = config(2, 0.1);
        let [first, second] = [0, 97].map(|later| later_batches(&config, 4, 4, later));
        for (stages, ranks) in [(1, 1), (2, 2)] {
            let twice = |replicas| {
                let mut trainer = trainer(&config, builder(replicas, stages, ranks));
                backward(&mut trainer, &first);
                backward(&mut trainer, &second).1
            };
            let (found, expected) = (twice(2), twice(1));
            for (path, expected) in &expected {
                assert_close(path, &found[path], expected, 1e-6);
            }
        }
    });
}

/// Fewer than there are replicas, and numbers that do not divide.
#[test]
fn evaluation_deals_any_number_of_micro_batches() {
    alone(|| {
        let config = config(2, 0.1);
        for (stages, ranks) in [(1, 1), (2, 2)] {
            let mut single = trainer(&config, builder(1, stages, ranks));
            let mut three = trainer(&config, builder(3, stages, ranks));
            for count in [1, 2, 3, 5] {
                let batches = batches(&config, 6, count);
                let expected = single.evaluate(batches.clone()).expect("a loss");
                assert_eq!(
                    three.evaluate(batches).expect("a loss"),
                    expected,
                    "{count}"
                );
            }
            let input = || batches(&config, 2, 1).remove(0).input;
            let scores = |trainer: &mut Trainer<Gpt>| match trainer.predict(input()) {
                Ok(Activations::Logits(scores)) => scores.into_data(),
                other => panic!("no scores: {other:?}"),
            };
            assert_eq!(scores(&mut three), scores(&mut single));
        }
    });
}
