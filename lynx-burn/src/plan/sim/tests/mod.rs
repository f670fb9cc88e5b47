//! Is the simulated time the right one? Closed forms, a naive second simulator
//! that goes from nanosecond to nanosecond, and laws that must hold for any costs.

mod closed_forms;
mod errors;
mod exports;
mod laws;
mod naive;
mod random;
mod size_limits;

use super::costs::{Part, StageCosts};
use super::window::Window;
use crate::units::Nanos;

fn compute(label: &str, time: u64) -> Part {
    Part::Compute {
        label: label.to_owned(),
        time: Nanos(time),
    }
}

fn collective(window: Window, time: u64, recompute: u64) -> Part {
    Part::Collective {
        window,
        time: Nanos(time),
        recompute: Nanos(recompute),
    }
}

fn recompute(time: u64) -> Part {
    Part::Recompute { time: Nanos(time) }
}

/// `p` stages that cost the same and need no memory.
fn even(p: usize, forward: u64, backward: u64) -> Vec<StageCosts> {
    vec![StageCosts::plain(Nanos(forward), Nanos(backward)); p]
}
