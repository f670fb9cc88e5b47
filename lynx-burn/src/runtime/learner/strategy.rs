//! Burn's training loop, with steps that a trainer takes.

use burn::module::Module;
use burn::module::ModuleDisplay;
use burn::optim::ModuleOptimizer;
use burn::train::train::WorkerFailure;
use burn::train::{
    EarlyStoppingStrategy, EventProcessorTraining, Interrupter, Learner, LearnerEvent,
    SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents,
    TrainingError, TrainingItem, TrainingStrategy, ValidLoader,
};

use super::learnable::{Learnable, optimizer_of};
use super::output::StepOutput;
use crate::runtime::chain::Chain;
use crate::runtime::save::{LoadError, SaveError};
use crate::runtime::trainer::{BuildError, TrainError, Trainer, TrainerBuilder};

type Events<C> = SupervisedTrainingEventProcessor<Learnable<C>>;

impl TrainerBuilder {
    /// A strategy for Burn's `SupervisedTraining` under which a trainer with these decisions takes the
    /// steps; see [`learner`](crate::learner).
    #[must_use]
    pub fn strategy<C: Chain + ModuleDisplay>(self) -> TrainingStrategy<Learnable<C>> {
        TrainingStrategy::Custom(std::sync::Arc::new(Planned { builder: self }))
    }
}

/// Takes the steps with a trainer.
struct Planned {
    builder: TrainerBuilder,
}

/// Why training under a learner ended.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(
        "gradients are not accumulated over {0} items: a larger step is more micro-batches in an item"
    )]
    Accumulation(usize),
    #[error("the learner did not show its optimizer")]
    Optimizer,
}

impl From<Failure> for TrainingError {
    fn from(failure: Failure) -> Self {
        let stage = match &failure {
            Failure::Train(TrainError::Stage(failure)) => failure.stage.0,
            _ => 0,
        };
        // Burn's errors have no place for another one's.
        Self::Workers(vec![WorkerFailure {
            device_id: stage,
            message: failure.to_string(),
        }])
    }
}

/// What there is while it trains.
struct Run<C: Chain + ModuleDisplay> {
    trainer: Trainer<C>,
    learner: Learner<Learnable<C>>,
    optimizer: ModuleOptimizer,
    events: Events<C>,
    interrupter: Interrupter,
}

impl<C: Chain + ModuleDisplay> SupervisedLearningStrategy<Learnable<C>> for Planned {
    fn fit(
        &self,
        components: TrainingComponents<Learnable<C>>,
        mut learner: Learner<Learnable<C>>,
        train: TrainLoader<Learnable<C>>,
        valid: ValidLoader<Learnable<C>>,
        starting_epoch: usize,
    ) -> (Learnable<C>, Events<C>) {
        let interrupter = components.interrupter.clone();
        let begun = self.begin(&mut learner, components.grad_accumulation);
        let (trainer, optimizer) = match begun {
            Ok(begun) => begun,
            Err(failure) => {
                interrupter.fail(failure);
                return (learner.model(), components.event_processor);
            }
        };
        let device = self.builder.first_device();
        let (train, valid) = (train.to_device(&device), valid.to_device(&device));
        let mut run = Run {
            trainer,
            learner,
            optimizer,
            events: components.event_processor,
            interrupter,
        };
        let mut checkpointer = components.checkpointer;
        let mut early_stopping = components.early_stopping;
        let store = components.event_store;
        for epoch in starting_epoch..=components.num_epochs {
            run.train(epoch, &train);
            if run.interrupter.should_stop() {
                break;
            }
            run.validate(epoch, &valid);
            run.told(|events| events.process_train(LearnerEvent::EndEpoch(epoch)));
            // What stops, and what is worth a checkpoint, is decided by all of the epoch's metrics.
            run.told(|events| events.flush());
            if run.interrupter.should_stop() {
                break;
            }
            if let Some(checkpointer) = &mut checkpointer {
                match run.show_learner() {
                    Ok(()) => checkpointer.checkpoint(&run.learner, epoch, &store),
                    Err(failure) => {
                        run.interrupter.fail(failure);
                        break;
                    }
                }
            }
            let stops = |early: &mut Box<_>| {
                EarlyStoppingStrategy::should_stop(&mut **early, epoch, &store)
            };
            if early_stopping.as_mut().is_some_and(stops) {
                break;
            }
        }
        run.end()
    }
}

impl Planned {
    /// The learner's model, cut and dealt to stages, and its optimizer.
    fn begin<C: Chain + ModuleDisplay>(
        &self,
        learner: &mut Learner<Learnable<C>>,
        accumulation: Option<usize>,
    ) -> Result<(Trainer<C>, ModuleOptimizer), Failure> {
        if let Some(items) = accumulation {
            return Err(Failure::Accumulation(items));
        }
        let optimizer = optimizer_of(learner).ok_or(Failure::Optimizer)?;
        let model = learner.model();
        let steps = model.steps();
        let chain = model.into_inner();
        let mut trainer = self
            .builder
            .clone()
            .train(chain.clone(), optimizer.clone())?;
        trainer.go_on(&chain, &optimizer, steps)?;
        Ok((trainer, optimizer))
    }
}

impl<C: Chain + ModuleDisplay> Run<C> {
    /// Tells Burn something; what goes wrong with it ends the training.
    fn told<E: Into<TrainingError>>(&mut self, tell: impl FnOnce(&mut Events<C>) -> Result<(), E>) {
        let result = tell(&mut self.events);
        self.interrupter.fail_on_error(result);
    }

    /// A step for each item of the loader.
    fn train(&mut self, epoch: usize, loader: &TrainLoader<Learnable<C>>) {
        let total_items = loader.num_items();
        self.told(|events| {
            events.process_train(LearnerEvent::StartSplit {
                epoch_number: epoch,
                total_items,
            })
        });
        let mut items = loader.iter();
        let mut iteration = 0;
        while !self.interrupter.should_stop() {
            let Some(item) = items.next() else {
                break;
            };
            iteration += 1;
            self.learner.lr_step();
            let rate = self.learner.lr_current();
            let item = item.map_err(TrainingError::from);
            let step = item.and_then(|item| {
                let report = self.trainer.step(rate.base(), item);
                report.map_err(|error| Failure::from(error).into())
            });
            match step {
                Ok(report) => {
                    let output = StepOutput::of_step(report);
                    let progress = items.progress();
                    let item = TrainingItem::new(output, progress, Some(iteration), Some(rate));
                    self.told(|events| events.process_train(LearnerEvent::ProcessedItem(item)));
                }
                Err(error) => self.interrupter.fail(error),
            }
        }
        self.told(|events| events.process_train(LearnerEvent::EndSplit(epoch)));
    }

    /// The loss of each item of the loader.
    fn validate(&mut self, epoch: usize, loader: &ValidLoader<Learnable<C>>) {
        let total_items = loader.num_items();
        self.told(|events| {
            events.process_valid(LearnerEvent::StartSplit {
                epoch_number: epoch,
                total_items,
            })
        });
        let mut items = loader.iter();
        let mut iteration = 0;
        while !self.interrupter.should_stop() {
            let Some(item) = items.next() else {
                break;
            };
            iteration += 1;
            let item = item.map_err(TrainingError::from);
            let loss = item.and_then(|item| {
                let loss = self.trainer.evaluate(item);
                loss.map_err(|error| Failure::from(error).into())
            });
            match loss {
                Ok(loss) => {
                    let output = StepOutput::of_loss(loss);
                    let item = TrainingItem::new(output, items.progress(), Some(iteration), None);
                    self.told(|events| events.process_valid(LearnerEvent::ProcessedItem(item)));
                }
                Err(error) => self.interrupter.fail(error),
            }
        }
        self.told(|events| events.process_valid(LearnerEvent::EndSplit(epoch)));
    }

    /// The learner's model with the trained parameters.
    fn model(&mut self) -> Result<Learnable<C>, Failure> {
        let model = self.learner.model();
        let chain = self.trainer.fill(model.chain().clone())?;
        Ok(model.after(chain, self.trainer.steps()))
    }

    /// Gives the learner the trained parameters and the optimizer's state, for a checkpoint.
    fn show_learner(&mut self) -> Result<(), Failure> {
        let model = self.model()?;
        let optimizer = self
            .trainer
            .fill_optimizer(model.chain(), &self.optimizer)?;
        self.learner.load_model(model.into_record());
        self.learner.load_optim(optimizer.to_record());
        Ok(())
    }

    /// The trained model; after a failure that ended the stages, the learner's last.
    fn end(mut self) -> (Learnable<C>, Events<C>) {
        let model = match self.model() {
            Ok(model) => model,
            Err(failure) => {
                self.interrupter.fail(failure);
                self.learner.model()
            }
        };
        (model, self.events)
    }
}
