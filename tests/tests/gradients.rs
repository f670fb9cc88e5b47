//! Losses and gradients are plain Burn's, bit for bit.

use std::time::Duration;

use burn::optim::AdamWConfig;
use burn::prelude::*;
use lynx_burn::TrainerBuilder;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_tests::chains::{NetSpec, Step};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes};
use lynx_tests::watchdog::within;

const POLICIES: [&str; 6] = [
    "retain",
    "recompute",
    "every:2",
    "uniform:2",
    "selective:dense,gate",
    "selective:norm,drop,open",
];

fn device() -> Device {
    Device::flex().autodiff()
}

/// Runs one step's forwards and backwards both ways and compares every byte.
fn compare(spec: &NetSpec, stages: usize, sizes: &[usize], kind: Kind, policy: &str) {
    let what = format!("{policy} p={stages} m={} {kind}", sizes.len());
    let model = spec.init(&device());
    let batches: Vec<_> = sizes.iter().map(|&n| spec.batch(n, &device())).collect();
    let plain = Plain::new(model.clone(), AdamWConfig::new().init(), 7);
    let expected = plain.backward(&batches);
    let mut trainer = TrainerBuilder::new()
        .stages(stages)
        .schedule(kind)
        .policy(policy.parse::<Policy>().expect("a policy"))
        .seed(7)
        .train(model, AdamWConfig::new().init())
        .expect("it fits");
    let report = trainer.backward(batches).expect("a backward");
    assert_eq!(report.losses, expected.losses, "{what}: losses");
    let gradients = trainer.gradients().expect("gradients");
    assert_same_bytes(
        &what,
        &gradients,
        &gradient_bytes(&plain.model, &expected.gradients),
    );
}

#[test]
fn gradients_equal_plain_burn_for_every_policy_schedule_and_pipeline() {
    use Step::{Close, Dense, Drop, Gate, Norm, Open};
    within(Duration::from_secs(240), || {
        for steps in [
            vec![Open, Norm, Dense, Gate, Close, Dense, Norm, Dense],
            vec![Open, Norm, Dense, Drop, Close, Drop, Gate, Dense],
        ] {
            let mut spec = NetSpec::new(steps);
            spec.per_layer = 2;
            for policy in POLICIES {
                if policy.contains("drop") && !spec.steps.contains(&Drop) {
                    continue;
                }
                for (stages, micro_batches) in [
                    (1, 1),
                    (1, 2),
                    (1, 8),
                    (2, 1),
                    (2, 2),
                    (2, 3),
                    (2, 8),
                    (3, 4),
                    (4, 1),
                    (4, 2),
                    (4, 3),
                    (4, 8),
                ] {
                    for kind in [Kind::GPipe, Kind::OneFOneB] {
                        compare(&spec, stages, &vec![3; micro_batches], kind, policy);
                    }
                }
            }
        }
    });
}
