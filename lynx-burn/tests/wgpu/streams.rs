//! In which order a device runs what is queued on two streams.

use std::time::Duration;

use burn::optim::SgdConfig;
use burn::prelude::*;
use burn::tensor::{StreamId, TensorData};
use lynx_burn::plan::policy::Policy;
use lynx_burn::units::Nanos;
use lynx_burn::{Overlap, TrainerBuilder};

use crate::compare::assert_same_bits;
use crate::device::{wgpu, within};
use crate::net::{Net, batch};

const SIZE: usize = 4099;

fn full(value: f32, device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(vec![value; SIZE], [SIZE]), device)
}

fn assert_all(what: &str, tensor: Tensor<1>, expected: f32) {
    let found = tensor.into_data();
    let wrong = found.iter::<f32>().filter(|&v| v != expected).count();
    assert_eq!(wrong, 0, "{what}: elements that are not {expected}");
}

/// What the runtime builds on: who uses a tensor waits for the stream that made it, and memory that one
/// stream lets go of is not used again before others have read it.
#[test]
fn a_tensor_made_on_one_stream_is_what_another_reads_of_it() {
    let Some(device) = wgpu() else { return };
    let side = StreamId::allocate();
    for round in 0..200 {
        let value = round as f32;
        let made = full(value, &device).add_scalar(1.0).mul_scalar(2.0);
        let used = side.executes(|| made.clone().mul_scalar(3.0).add(made.clone()));
        // The side's read may still be queued when this stream wants memory.
        drop(made);
        for _ in 0..4 {
            let _ = full(f32::NAN, &device).add_scalar(1.0);
        }
        let back = used.clone().add_scalar(1.0);
        side.executes(|| drop(used));
        assert_all(&format!("round {round}"), back, 8.0 * (value + 1.0) + 1.0);
    }
}

/// A tensor that nobody else holds is changed in place, and goes on counting as the stream's that made
/// it. With a fence as the runtime raises them, the first stream sees the change; without, CubeCL does
/// not promise it, and this says what it does.
#[test]
fn what_another_stream_has_changed_in_place_is_seen_behind_a_fence() {
    let Some(device) = wgpu() else { return };
    let side = StreamId::allocate();
    let mut stale = 0;
    for round in 0..200 {
        let value = round as f32;
        for fenced in [true, false] {
            let made = full(value, &device).add_scalar(1.0);
            let (changed, fence) = side.executes(|| {
                let changed = made.mul_scalar(2.0).add_scalar(3.0);
                let fence = fenced.then(|| Tensor::<1>::zeros([1], &device));
                (changed, fence)
            });
            if let Some(fence) = fence {
                let _ = fence.add_scalar(1.0);
            }
            let read = changed.sub_scalar(1.0);
            let expected = 2.0 * (value + 1.0) + 2.0;
            if fenced {
                assert_all(&format!("round {round}"), read, expected);
            } else {
                let found = read.into_data();
                stale += usize::from(found.iter::<f32>().any(|v| v != expected));
            }
        }
    }
    println!("without a fence, {stale} of 200 tensors were read before they were changed");
}

/// Two hundred steps with what is recomputed ahead on its own stream and without, while every segment
/// leaves memory behind that is not a number: a tensor read too early or freed too soon would show.
#[test]
fn two_hundred_steps_are_the_same_with_a_stream_for_recompute_and_without() {
    let Some(device) = wgpu() else { return };
    within(Duration::from_secs(1200), move || {
        let net = Net::new(2).littering();
        let trainer = |streams| {
            TrainerBuilder::new()
                .stages(2)
                .devices([device.clone()])
                .policy(Policy::RecomputeAll)
                .overlap(Overlap::Opportunistic)
                .link("1GB/s,500us".parse().expect("a speed"))
                .streams(streams)
                .seed(5)
                .train(net.clone(), SgdConfig::new().init())
                .expect("it fits")
        };
        let [mut apart, mut together] = [true, false].map(trainer);
        let mut hidden = Nanos(0);
        for round in 0..200u64 {
            let batches: Vec<_> = (0..2).map(|id| batch(2 * round + id, 1, &device)).collect();
            let found = apart.step(0.05, batches.clone()).expect("a step");
            let expected = together.step(0.05, batches).expect("a step");
            assert_eq!(
                found.backward.losses, expected.backward.losses,
                "step {round}"
            );
            hidden = hidden.saturating_add(found.backward.hidden());
        }
        assert!(hidden > Nanos(0), "nothing was recomputed ahead");
        let found = apart.parameters().expect("parameters");
        for (path, expected) in together.parameters().expect("parameters") {
            assert_same_bits(&path, &found[&path], &expected);
        }
    });
}
