//! What a large simulation costs: nothing is kept for each action, and the work
//! for one action does not grow with their number.

use super::super::costs::Costs;
use super::super::simulate;
use super::super::window::Window;
use super::{collective, even, recompute};
use crate::plan::schedule::Kind;
use crate::plan::schedule::transfers::eager;
use crate::units::Nanos;

/// 128 stages and 512 micro-batches: 131,072 computes, 260,096 transfers.
#[test]
fn a_large_pipeline_has_the_time_of_the_closed_form() {
    let (p, m) = (128, 512);
    let schedule = eager(&Kind::OneFOneB.generate(p, m).unwrap());
    let mut stages = even(p, 70, 140);
    for stage in &mut stages {
        stage.forward.push(collective(Window::F1, 30, 20));
        stage.backward.push(recompute(60));
    }
    let report = simulate(&schedule, &Costs::with_free_links(stages)).unwrap();
    assert_eq!(report.step, Nanos((m + p - 1) as u64 * 300));
    let ratio = (p - 1) as f64 / (m + p - 1) as f64;
    assert!((report.bubble_ratio() - ratio).abs() < 1e-12);
}
