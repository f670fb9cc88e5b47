//! Whole steps: the device against the CPU, and every policy against every other.

use std::collections::BTreeMap;
use std::time::Duration;

use burn::optim::AdamWConfig;
use burn::prelude::*;
use burn::tensor::TensorData;
use lynx_burn::plan::policy::Policy;
use lynx_burn::{Overlap, TrainerBuilder};

use crate::compare::{assert_close, assert_same_bits};
use crate::device::{counting_composed, wgpu, within};
use crate::net::{Net, batch};

/// Losses of each step, and the parameters after the last.
type Trained = (Vec<f64>, BTreeMap<String, TensorData>);

fn builder(device: &Device, policy: &str) -> TrainerBuilder {
    let policy: Policy = policy.parse().expect("a policy");
    TrainerBuilder::new()
        .stages(2)
        .devices([device.clone()])
        .policy(policy)
        .seed(5)
}

fn train(builder: TrainerBuilder, net: &Net, device: &Device) -> Trained {
    let optimizer = AdamWConfig::new().init();
    let mut trainer = builder.train(net.clone(), optimizer).expect("it fits");
    let mut losses = Vec::new();
    for step in 0..3 {
        let batches = (0..3).map(|id| batch(10 * step + id, 2, device)).collect();
        let report = trainer.step(0.01, batches).expect("a step");
        losses.extend(report.backward.losses);
    }
    (losses, trainer.parameters().expect("parameters"))
}

fn assert_same(what: &str, found: &Trained, expected: &Trained) {
    assert_eq!(found.0, expected.0, "{what}: losses");
    assert_eq!(found.1.len(), expected.1.len(), "{what}");
    for (path, expected) in &expected.1 {
        assert_same_bits(&format!("{what}: {path}"), &found.1[path], expected);
    }
}

/// AdamW divides a gradient by its own size, so a rounding in a small one shows in full in the update: of
/// three updates of a hundredth each, a share may differ (3e-5 on lavapipe). Losses have no such factor.
#[test]
fn two_stages_on_the_device_learn_what_they_learn_on_the_cpu_and_recompute_changes_no_bit() {
    let Some(device) = wgpu() else { return };
    within(Duration::from_secs(600), move || {
        let net = Net::new(2);
        let cpu = Device::flex();
        let expected = train(builder(&cpu, "retain"), &net, &cpu);
        let retained = train(builder(&device, "retain"), &net, &device);
        for (found, expected) in retained.0.iter().zip(&expected.0) {
            assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
        }
        for (path, expected) in &expected.1 {
            assert_close(path, 2e-3, &retained.1[path], expected);
        }
        for policy in ["recompute", "selective:attention"] {
            let found = train(builder(&device, policy), &net, &device);
            assert_same(policy, &found, &retained);
        }
        let ahead = builder(&device, "recompute")
            .overlap(Overlap::Opportunistic)
            .link("1GB/s,2ms".parse().expect("a speed"));
        for streams in [false, true] {
            let found = train(ahead.clone().streams(streams), &net, &device);
            assert_same(&format!("ahead, streams {streams}"), &found, &retained);
        }
        // One stage, and with it everything on one thread: nothing hangs on how threads meet.
        let alone = builder(&device, "recompute").stages(1);
        let (found, composed) = counting_composed(|| train(alone, &net, &device));
        assert_same("one stage", &found, &retained);
        assert_eq!(composed, 0);
    });
}
