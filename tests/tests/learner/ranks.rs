//! Of several ranks each has slices; the learner's model and its checkpoints are whole.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::optim::AdamWConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::prelude::*;
use burn::train::metric::LossMetric;
use burn::train::{Interrupter, Learner, SupervisedTraining};
use lynx_burn::learner::Learnable;
use lynx_burn::{MicroBatch, TrainerBuilder};
use lynx_tests::shares::{Shares, SharesSpec};
use lynx_tests::watchdog::within;

use crate::seen::{Impatient, Log};

type Item = Vec<MicroBatch<Shares>>;

/// Drawn once, so that every training learns from the same.
struct Drawn(Arc<Vec<Item>>);

impl Batcher<usize, Item> for Drawn {
    fn batch(&self, numbers: Vec<usize>, _: &Device) -> Item {
        self.0[numbers[0]].clone()
    }
}

struct Trial {
    items: Arc<Vec<Item>>,
    model: Shares,
}

impl Trial {
    fn new() -> Self {
        let spec = SharesSpec::new(2);
        let device = Device::flex();
        let item = |_| (0..2).map(|_| spec.batch(3, &device)).collect();
        Self {
            items: Arc::new((0..5).map(item).collect()),
            model: spec.init(&device.clone().autodiff()),
        }
    }

    fn loader(&self, numbers: std::ops::Range<usize>) -> Arc<dyn DataLoader<Item>> {
        DataLoaderBuilder::new(Drawn(self.items.clone()))
            .batch_size(1)
            .build(InMemDataset::new(numbers.collect()))
    }

    /// Trains on two stages of two ranks; returns the losses and the parameters.
    fn train(
        &self,
        folder: &Path,
        model: Shares,
        (begin, end): (Option<usize>, usize),
    ) -> (Vec<f64>, Vec<u8>) {
        let log = Log::default();
        let still = Impatient {
            items: usize::MAX,
            interrupter: Interrupter::new(),
        };
        let builder = TrainerBuilder::new()
            .stages(2)
            .ranks(2)
            .policy("recompute".parse().expect("a policy"));
        let mut training = SupervisedTraining::new(folder, self.loader(0..4), self.loader(4..5))
            .metrics((LossMetric::new(),))
            .with_metric_logger(log.clone())
            .with_application_logger(None)
            .renderer(Box::new(still))
            .with_default_checkpointers()
            .num_epochs(end)
            .with_training_strategy(builder.strategy());
        if let Some(epoch) = begin {
            training = training.checkpoint(epoch);
        }
        let model = Learnable::new(model);
        let optimizer = AdamWConfig::new().init();
        let result = training.launch(Learner::new(model, optimizer, ConstantLr::new(0.01)));
        assert!(result.error.is_none(), "{:?}", result.error);
        let record = result.model.into_inner().into_record();
        let bytes = record.into_bytes().expect("a record").to_vec();
        (log.values("Loss", "train"), bytes)
    }
}

#[test]
fn a_training_of_several_ranks_resumed_from_burns_checkpoint_ends_as_an_unbroken_one() {
    within(Duration::from_secs(200), || {
        let trial = Trial::new();
        let [unbroken, broken] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let model = || trial.model.clone();
        let (losses, end) = trial.train(unbroken.path(), model(), (None, 3));
        assert!(
            losses[11] < losses[3] && losses[3].is_finite(),
            "{losses:?}"
        );
        let (first, _) = trial.train(broken.path(), model(), (None, 2));
        assert_eq!(first, losses[..8]);
        let other = SharesSpec::new(2).init(&Device::flex().autodiff());
        let (rest, resumed) = trial.train(broken.path(), other, (Some(2), 3));
        assert_eq!(rest, losses[8..]);
        assert!(resumed == end);
    });
}
