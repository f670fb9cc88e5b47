//! Schedules on real threads, whose timing nobody chose, under a watchdog.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::Duration;

use super::super::transfers::rendezvous;
use super::super::{Action, Schedule, forward_only};
use super::generated;

/// Runs the transfers on one thread per stage. `sync_channel(0)` is a rendezvous.
fn threads_finish(schedule: &Schedule, capacity: usize) -> bool {
    let p = schedule.stages.len();
    let pairs = || {
        (1..p)
            .map(|_| mpsc::sync_channel::<usize>(capacity))
            .unzip()
    };
    let (forward_to, forward_from): (Vec<_>, Vec<_>) = pairs();
    let (backward_to, backward_from): (Vec<_>, Vec<_>) = pairs();
    let mut forward_from: VecDeque<_> = [None]
        .into_iter()
        .chain(forward_from.into_iter().map(Some))
        .collect();
    let mut backward_from: VecDeque<_> =
        backward_from.into_iter().map(Some).chain([None]).collect();
    let (report, finished) = mpsc::channel();
    for (stage, actions) in schedule.stages.iter().enumerate() {
        let (down, up) = (
            forward_to.get(stage).cloned(),
            stage.checked_sub(1).map(|s| backward_to[s].clone()),
        );
        let (from_up, from_down) = (
            forward_from.pop_front().flatten(),
            backward_from.pop_front().flatten(),
        );
        let (actions, report) = (actions.clone(), report.clone());
        std::thread::spawn(move || {
            for action in actions {
                let mb = action.micro_batch().0;
                let moved = match action {
                    Action::Forward(_) | Action::Backward(_) => true,
                    Action::SendForward(_) => down.as_ref().unwrap().send(mb).is_ok(),
                    Action::SendBackward(_) => up.as_ref().unwrap().send(mb).is_ok(),
                    Action::RecvForward(_) => from_up.as_ref().unwrap().recv() == Ok(mb),
                    Action::RecvBackward(_) => from_down.as_ref().unwrap().recv() == Ok(mb),
                };
                assert!(moved, "stage {stage} at {action}");
            }
            let _ = report.send(());
        });
    }
    (0..p).all(|_| finished.recv_timeout(Duration::from_secs(20)).is_ok())
}

/// pytorch#172668 and Megatron-LM#5240 hung on the order of sends and receives;
/// torchtitan#775 with fewer micro-batches than stages.
#[test]
fn real_threads_finish_every_schedule_at_its_least_capacity() {
    for (kind, schedule, capacity) in generated() {
        assert!(
            threads_finish(&schedule, capacity),
            "{kind} at {capacity}\n{schedule}"
        );
    }
    let evaluation = rendezvous(&forward_only(4, 3).unwrap()).unwrap();
    assert!(threads_finish(&evaluation, 0));
}
