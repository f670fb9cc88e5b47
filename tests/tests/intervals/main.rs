//! Overlap shown by intervals: what counts as hidden lies inside what hides it.
//!
//! Everything that stages and ranks tell is kept with its instants, and laid side by side: first
//! what one thread says of itself, then the same against the messages that its neighbours say they
//! have sent, and against the sums as all ranks see them.

mod checks;
mod pipeline;
mod seen;
mod sums;

use std::collections::BTreeSet;
use std::sync::Arc;

use burn::optim::SgdConfig;
use burn::prelude::*;
use lynx_burn::plan::sim::Window;
use lynx_burn::plan::sim::timeline::Timeline;
use lynx_burn::units::Nanos;
use lynx_burn::{BackwardReport, Chain, MicroBatch, TrainerBuilder};
use lynx_tests::watchdog::alone;

use self::seen::{Run, Seen};

fn device() -> Device {
    Device::flex().autodiff()
}

/// A few steps, each with what it reported, what was told of it, and its timeline.
fn steps<C: Chain>(
    builder: TrainerBuilder,
    model: C,
    batches: &[MicroBatch<C>],
) -> Vec<(BackwardReport, Run, Timeline)> {
    let seen = Arc::new(Seen::default());
    let mut trainer = builder
        .observer(seen.clone())
        .train(model, SgdConfig::new().init())
        .expect("it fits");
    let steps = [(); 3].map(|()| {
        let report = trainer.step(0.01, batches.to_vec()).expect("a step");
        let (run, timeline) = seen.take();
        (report.backward, run, timeline)
    });
    steps.into()
}

/// Which windows hid something.
fn kinds(report: &BackwardReport) -> BTreeSet<Window> {
    let of_all = report.stages.iter().flat_map(|stage| {
        let hidden = stage.times.hidden.iter();
        hidden.filter(|(_, time)| *time > Nanos(0))
    });
    of_all.map(|(window, _)| window).collect()
}
