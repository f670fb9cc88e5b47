//! The pass that adds the sums of gradients over replicas.
//!
//! Replicas of a pipeline run the same schedule on different micro-batches, so
//! they meet where the schedule says it: each chunk's gradients are summed in
//! one action of its stage. It stands as early as it can, behind the chunk's last
//! backward, where other chunks and stages still have work to do.
//!
//! Why replicas cannot get stuck in each other: each of them alone comes to its
//! end, all run the same lists, and a reduction needs of every other replica only
//! that it comes to the same place of the same list. So let all of them take each
//! step of such a run together: nobody ever waits for one that is behind.

use super::{Action, Schedule};

/// Reduces every chunk's gradients after its last backward and, where that
/// follows at once, the send that the stage before waits for.
///
/// Reductions that are there already are dropped first, so that it can be applied
/// more than once. It comes after the passes that add [`transfers`](super::transfers),
/// which drop what is neither compute nor theirs.
pub fn reduce_gradients(schedule: &Schedule) -> Schedule {
    let stages = schedule.stages.iter();
    let stages = stages.map(|actions| with_reductions(actions, schedule.micro_batches));
    schedule.with_stages(stages.collect())
}

fn with_reductions(actions: &[Action], micro_batches: usize) -> Vec<Action> {
    let others = actions.iter().copied().filter(|a| !a.is_reduction());
    let mut others = others.peekable();
    let mut all = Vec::with_capacity(actions.len() + 1);
    while let Some(action) = others.next() {
        all.push(action);
        let unit = action.unit();
        if action.ends_backward() && unit.micro_batch.0 + 1 == micro_batches {
            all.extend(others.next_if_eq(&Action::SendBackward(unit)));
            all.push(Action::ReduceGradients(unit));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::transfers::{eager, rendezvous};
    use super::super::{Kind, Rules, Schedule, ScheduleError, validate};
    use super::reduce_gradients;

    fn rules(kind: Kind, capacity: usize, replicas: usize) -> Rules {
        Rules {
            replicas,
            ..kind.rules(capacity)
        }
    }

    fn read(text: &str) -> Schedule {
        text.parse().unwrap()
    }

    #[test]
    fn each_stage_reduces_once_behind_its_last_backward_and_the_send_of_its_gradient() {
        let plain = eager(&Kind::OneFOneB.generate(2, 2).unwrap());
        let expected = "schedule p=2 m=2\n\
                        stage 0: F0 SF0 F1 SF1 RB0 B0 RB1 B1 G1\n\
                        stage 1: RF0 F0 B0 SB0 RF1 F1 B1 SB1 G1";
        let reduced = reduce_gradients(&plain);
        assert_eq!(reduced, read(expected));
        assert_eq!(reduced.to_string(), expected);
        assert_eq!(reduce_gradients(&reduced), reduced);
        let split = reduce_gradients(&Kind::ZbH1.generate(2, 2).unwrap());
        let expected = "schedule p=2 m=2\n\
                        stage 0: F0 F1 I0 W0 I1 W1 G1\n\
                        stage 1: F0 I0 F1 I1 W0 W1 G1";
        assert_eq!(split, read(expected));
    }

    #[test]
    fn chunks_are_reduced_one_by_one_while_others_go_on() {
        let kind: Kind = "interleaved:2".parse().unwrap();
        let reduced = reduce_gradients(&eager(&kind.generate(2, 2).unwrap()));
        let words = reduced.to_string();
        for stage in words.lines().skip(1) {
            assert_eq!(stage.matches(" G1").count(), 2, "{stage}");
            assert!(
                stage.contains(" G1.1 ") && stage.ends_with(" G1"),
                "{stage}"
            );
        }
        assert!(validate(&reduced, &rules(kind, 2, 2)).is_ok());
    }

    #[test]
    fn every_kind_is_sound_with_it_for_several_replicas_and_refused_for_one() {
        for kind in super::super::tests::KINDS {
            for (stages, micro_batches) in [(1, 1), (1, 3), (2, 4), (4, 4), (4, 8)] {
                let plain = kind.generate(stages, micro_batches).unwrap();
                for (capacity, complete) in [(1, eager(&plain)), (0, rendezvous(&plain).unwrap())] {
                    let reduced = reduce_gradients(&complete);
                    let what = format!("{kind} p={stages} m={micro_batches} {capacity}");
                    let with =
                        |schedule, replicas| validate(schedule, &rules(kind, capacity, replicas));
                    let alone = with(&complete, 1);
                    assert_eq!(with(&reduced, 3), alone, "{what}");
                    if alone.is_err() {
                        continue;
                    }
                    let error = with(&reduced, 1).unwrap_err();
                    let refused = matches!(error, ScheduleError::NobodyToReduceWith { .. });
                    assert!(refused, "{what}: {error}");
                    let error = with(&complete, 3).unwrap_err();
                    assert!(
                        error.to_string().starts_with("stage 0 never does G"),
                        "{what}: {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_reduction_too_early_too_often_or_of_another_micro_batch_is_named() {
        let of_two = |stage: &str| {
            let schedule = read(&format!("schedule p=1 m=2\nstage 0: {stage}"));
            validate(&schedule, &rules(Kind::OneFOneB, 1, 2)).map_err(|error| error.to_string())
        };
        assert!(of_two("F0 B0 F1 B1 G1").is_ok());
        for (stage, error) in [
            ("F0 B0 F1 G1 B1", "stage 0 does G1 before B1"),
            ("F0 B0 F1 B1 G1 G1", "stage 0 does G1 more than once"),
            ("F0 B0 F1 B1", "stage 0 never does G1"),
            (
                "F0 B0 G0 F1 B1 G1",
                "stage 0 does G0, but its gradients are complete only with micro-batch 1",
            ),
            (
                "F0 B0 F1 B1 G2",
                "stage 0 does G2, but the step has only 2 micro-batches",
            ),
        ] {
            assert_eq!(of_two(stage).unwrap_err(), error);
        }
    }
}
