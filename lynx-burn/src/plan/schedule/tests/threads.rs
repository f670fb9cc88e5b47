//! Schedules on real threads, whose timing nobody chose, under a watchdog.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use super::super::transfers::rendezvous;
use super::super::{Action, Schedule, forward_only};
use super::generated;

/// What each stage sends to, or receives from, by stage.
type Ends<T> = Vec<Option<T>>;

/// A channel from every stage to the next, around the ring; the receivers are in
/// the order of the stages that receive.
fn ring(p: usize, capacity: usize) -> (Ends<SyncSender<String>>, Ends<Receiver<String>>) {
    let (to, mut from): (Vec<_>, Vec<_>) = (0..p)
        .map(|_| mpsc::sync_channel::<String>(capacity))
        .map(|(to, from)| (Some(to), Some(from)))
        .unzip();
    from.rotate_right(1);
    (to, from)
}

/// Runs the transfers on one thread per stage. `sync_channel(0)` is a rendezvous.
fn threads_finish(schedule: &Schedule, capacity: usize) -> bool {
    let p = schedule.stages.len();
    let (mut down, mut from_up) = ring(p, capacity);
    let (mut up, mut from_down) = ring(p, capacity);
    // Gradients go around the other way.
    up.reverse();
    from_down.reverse();
    let (report, finished) = mpsc::channel();
    for (stage, actions) in schedule.stages.iter().enumerate() {
        let (down, up) = (down[stage].take().unwrap(), up[stage].take().unwrap());
        let from_up = from_up[stage].take().unwrap();
        let from_down = from_down[stage].take().unwrap();
        let (actions, report) = (actions.clone(), report.clone());
        std::thread::spawn(move || {
            for action in actions {
                // A message carries the chunk whose boundary or gradient it is.
                let (mb, chunk) = (action.micro_batch().0, action.chunk().0);
                let here = format!("{mb} of {chunk}");
                let above = match stage {
                    0 => format!("{mb} of {}", chunk.wrapping_sub(1)),
                    _ => here.clone(),
                };
                let moved = match action {
                    Action::SendForward(_) => down.send(here).is_ok(),
                    Action::RecvBackward(_) => from_down.recv() == Ok(here),
                    Action::SendBackward(_) => up.send(above).is_ok(),
                    Action::RecvForward(_) => from_up.recv() == Ok(above),
                    _ => true,
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
