//! A chain under Burn's `Learner` takes the steps of a trainer, and what Burn records of them is what
//! the trainer reports.

mod example;
mod ranks;
mod seen;
mod setup;

use std::path::Path;
use std::time::Duration;

use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::optim::lr_scheduler::linear::LinearLrSchedulerConfig;
use burn::prelude::*;
use burn::train::metric::LossMetric;
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::{
    ExecutionStrategy, Interrupter, Learner, LearningResult, MetricEarlyStoppingStrategy,
    StoppingCondition, TrainingStrategy,
};
use lynx_burn::learner::Learnable;
use lynx_burn::{StepReport, TrainerBuilder};
use lynx_tests::chains::{Fault, Misbehaviour, Net};
use lynx_tests::watchdog::within;
use seen::{Impatient, Log};
use setup::{RATE, STEPS, builder, bytes, item, learner, model, optimizer, spec, training};

const LIMIT: Duration = Duration::from_secs(200);

/// What a trainer does by itself: every step's report, the losses of the validation after each epoch,
/// and the parameters.
fn by_hand(model: Net, epochs: u64) -> (Vec<StepReport>, Vec<f64>, Vec<f64>) {
    let mut trainer = builder(2, "recompute")
        .train(model, optimizer())
        .expect("it fits");
    let rates = LinearLrSchedulerConfig::new(RATE, RATE / 10.0, 40);
    let mut rates = rates.init().expect("rates");
    let (mut reports, mut valid, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..epochs {
        for number in 0..STEPS {
            let rate = rates.step().base();
            taken.push(rate);
            reports.push(trainer.step(rate, item(number)).expect("a step"));
        }
        valid.extend((100..102).map(|number| trainer.evaluate(item(number)).expect("a loss")));
    }
    (reports, valid, taken)
}

#[test]
fn what_burn_records_is_what_the_trainer_reports_and_the_loss_falls() {
    within(LIMIT, || {
        let model = model();
        let (reports, valid, rates) = by_hand(model.clone(), 4);
        let folder = tempfile::tempdir().expect("a folder");
        let log = Log::default();
        let result = training(folder.path(), &log)
            .num_epochs(4)
            .with_training_strategy(builder(2, "recompute").strategy())
            .launch(learner(model.clone()));
        assert!(result.error.is_none() && result.interrupted.is_none());
        let losses: Vec<f64> = reports.iter().map(StepReport::loss).collect();
        assert_eq!(log.values("Loss", "train"), losses);
        assert_eq!(log.values("Loss", "valid"), valid);
        assert_eq!(log.values("Learning Rate", "train"), rates);
        let kept = |report: &StepReport| report.backward.retained_peak().0 as f64 / 1_048_576.0;
        let kept: Vec<f64> = reports.iter().map(kept).collect();
        assert_eq!(log.values("Retained", "train"), kept);
        assert!(valid[6] + valid[7] < valid[0] + valid[1], "{valid:?}");
        assert_eq!(result.model.steps(), 4 * STEPS);
        assert_ne!(bytes(&result.model.into_inner()), bytes(&model));
    });
}

#[test]
fn burns_own_strategy_takes_the_same_steps_to_the_bit() {
    within(LIMIT, || {
        let model = model();
        let mut ends = Vec::new();
        let single = ExecutionStrategy::single(Device::flex().autodiff());
        for strategy in [
            TrainingStrategy::Default(single),
            builder(1, "retain").strategy(),
            builder(3, "every:2").strategy(),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let log = Log::default();
            let result = training(folder.path(), &log)
                .num_epochs(2)
                .with_training_strategy(strategy)
                .launch(learner(model.clone()));
            assert_eq!(result.model.steps(), 2 * STEPS);
            let [train, valid] = ["train", "valid"].map(|split| log.values("Loss", split));
            assert_eq!((train.len(), valid.len()), (10, 4));
            ends.push((train, bytes(&result.model.into_inner()), valid));
        }
        let (burn, ours) = (&ends[0], &ends[1]);
        assert_eq!(burn.0, ours.0);
        assert!(burn.1 == ours.1 && *ours == ends[2]);
        // Burn evaluates outside of autodiff, where its layer norm adds up in another order.
        for (burn, ours) in burn.2.iter().zip(&ours.2) {
            assert!((burn - ours).abs() < 1e-6 * ours, "{burn} {ours}");
        }
    });
}

#[test]
fn training_stops_when_the_loss_no_longer_falls() {
    within(LIMIT, || {
        let folder = tempfile::tempdir().expect("a folder");
        let log = Log::default();
        let patience = MetricEarlyStoppingStrategy::new(
            &LossMetric::new(),
            Aggregate::Mean,
            Direction::Lowest,
            Split::Valid,
            StoppingCondition::NoImprovementSince { n_epochs: 2 },
        );
        // Nothing is learnt at this rate: the first epoch is the best, and two more are waited for.
        let still = Learner::new(Learnable::new(model()), optimizer(), ConstantLr::new(0.0));
        let result = training(folder.path(), &log)
            .num_epochs(9)
            .early_stopping(patience)
            .with_training_strategy(builder(2, "recompute").strategy())
            .launch(still);
        assert!(result.error.is_none());
        assert_eq!(log.epochs(), [1, 2, 3]);
        assert_eq!(result.model.steps(), 3 * STEPS);
    });
}

/// Trains three epochs more from Burn's checkpoint of the second.
fn resumed(folder: &Path, log: &Log, builder: TrainerBuilder) -> LearningResult<Learnable<Net>> {
    training(folder, log)
        .num_epochs(5)
        .with_default_checkpointers()
        .checkpoint(2)
        .with_training_strategy(builder.strategy())
        // Other values: everything must come from the checkpoint.
        .launch(learner(model()))
}

#[test]
fn a_training_resumed_from_burns_checkpoint_ends_as_an_unbroken_one_on_other_stages_too() {
    within(LIMIT, || {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = Log::default();
        let model = model();
        let unbroken = training(folder.path(), &whole)
            .num_epochs(5)
            .with_training_strategy(builder(2, "recompute").strategy())
            .launch(learner(model.clone()));
        let broken = Log::default();
        training(folder.path(), &broken)
            .num_epochs(2)
            .with_default_checkpointers()
            .with_training_strategy(builder(2, "recompute").strategy())
            .launch(learner(model));
        let expected = &whole.values("Loss", "train")[10..];
        let end = bytes(&unbroken.model.into_inner());
        for (stages, policy) in [(2, "recompute"), (1, "retain"), (4, "every:2")] {
            let log = Log::default();
            let result = resumed(folder.path(), &log, builder(stages, policy));
            assert!(result.error.is_none(), "{:?}", result.error);
            assert_eq!(log.values("Loss", "train"), expected, "{stages}");
            assert_eq!(result.model.steps(), 5 * STEPS);
            assert!(bytes(&result.model.into_inner()) == end, "{stages}");
        }
    });
}

#[test]
fn a_stop_that_the_dashboard_asks_for_ends_training_after_the_step_under_way() {
    within(LIMIT, || {
        let folder = tempfile::tempdir().expect("a folder");
        let log = Log::default();
        let interrupter = Interrupter::new();
        let impatient = Impatient {
            items: 3,
            interrupter: interrupter.clone(),
        };
        let result = training(folder.path(), &log)
            .num_epochs(9)
            .renderer(Box::new(impatient))
            .with_interrupter(interrupter)
            .with_training_strategy(builder(2, "recompute").strategy())
            .launch(learner(model()));
        assert!(result.error.is_none());
        let reason = result.interrupted.expect("stopped").reason;
        assert_eq!(reason.as_deref(), Some("seen enough"));
        // Burn shows items on a thread of its own, at most two steps late.
        let steps = result.model.steps();
        assert!((3..=5).contains(&steps), "{steps}");
        assert_eq!(log.values("Loss", "train").len() as u64, steps);
    });
}

#[test]
fn what_cannot_be_done_ends_training_with_an_error_that_says_why() {
    within(LIMIT, || {
        let mut faulty = spec();
        faulty.fault = Some(Fault {
            segment: 3,
            micro_batch: 1,
            kind: Misbehaviour::Panic,
        });
        let faulty = faulty.init(&Device::flex().autodiff());
        let cases = [
            (model(), builder(9, "recompute"), None, "stage"),
            (model(), builder(2, "selective:nothing"), None, "nothing"),
            (model(), builder(2, "recompute"), Some(2), "micro-batches"),
            (faulty, builder(2, "recompute"), None, "injected"),
        ];
        for (model, builder, accumulated, named) in cases {
            let folder = tempfile::tempdir().expect("a folder");
            let mut training = training(folder.path(), &Log::default())
                .num_epochs(2)
                .with_training_strategy(builder.strategy());
            if let Some(items) = accumulated {
                training = training.grads_accumulation(items);
            }
            let before = bytes(&model);
            let result = training.launch(learner(model));
            let error = result.error.expect("an error").to_string();
            assert!(error.contains(named), "{error}");
            assert!(bytes(&result.model.into_inner()) == before, "{named}");
        }
    });
}
