//! Evaluation: forwards and nothing else.
//!
//! Nothing is held between micro-batches here, so it has no kind to choose: a
//! stage runs them in ascending order.

use super::{Action, Schedule, ScheduleError};
use crate::ids::MicroBatchId;

/// The forwards of every stage, without transfers. Validate it with
/// [`Rules::backward`](super::Rules::backward) off.
pub fn forward_only(stages: usize, micro_batches: usize) -> Result<Schedule, ScheduleError> {
    let forward = |mb| Action::Forward(MicroBatchId(mb).into());
    Schedule::from_stages(stages, micro_batches, |_| {
        (0..micro_batches).map(forward).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, ScheduleError};
    use super::forward_only;

    #[test]
    fn it_is_gpipe_without_the_second_half() {
        let mut gpipe = Kind::GPipe.generate(3, 4).unwrap();
        for actions in &mut gpipe.stages {
            actions.truncate(4);
        }
        assert_eq!(forward_only(3, 4), Ok(gpipe));
    }

    #[test]
    fn an_empty_pipeline_is_refused() {
        assert_eq!(forward_only(0, 4), Err(ScheduleError::NoStages));
        assert_eq!(forward_only(3, 0), Err(ScheduleError::NoMicroBatches));
        for kind in [Kind::GPipe, Kind::OneFOneB] {
            assert_eq!(kind.generate(0, 4), Err(ScheduleError::NoStages));
            assert_eq!(kind.generate(3, 0), Err(ScheduleError::NoMicroBatches));
        }
    }
}
