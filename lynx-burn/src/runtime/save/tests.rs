//! Saves that are not what was written. What saves are for is tested in the workspace's `tests`.

use std::fs;
use std::ops::Range;
use std::path::Path;

use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, ModuleOptimizer, SgdConfig, momentum::MomentumConfig};
use burn::prelude::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::manifest::{Manifest, Seal};
use super::*;
use crate::plan::layout::Segment;
use crate::{Chain, Context, MicroBatch, Trainer, TrainerBuilder};

/// Linear layers, and a norm at the end.
#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Option<Linear>>,
    norm: Option<LayerNorm>,
}

impl Mlp {
    fn new(widths: &[usize]) -> Self {
        let device = Device::default().autodiff();
        let layers = widths.windows(2);
        Self {
            layers: layers
                .map(|ends| Some(LinearConfig::new(ends[0], ends[1]).init(&device)))
                .collect(),
            norm: widths
                .last()
                .map(|&width| LayerNormConfig::new(width).init(&device)),
        }
    }
}

impl Chain for Mlp {
    type Boundary = Tensor<2>;
    type Target = Tensor<2>;

    fn segments(&self) -> Vec<Segment> {
        let layers = (0..self.layers.len()).map(|layer| Segment::in_layer(layer, "dense"));
        layers.chain([Segment::outside("norm")]).collect()
    }

    fn keep(mut self, range: Range<usize>) -> Self {
        for (index, layer) in self.layers.iter_mut().enumerate() {
            layer.take_if(|_| !range.contains(&index));
        }
        self.norm.take_if(|_| !range.contains(&self.layers.len()));
        self
    }

    fn forward_segment(&self, index: usize, input: Tensor<2>, _: &Context) -> Tensor<2> {
        match self.layers.get(index) {
            Some(layer) => layer.as_ref().expect("kept").forward(input).tanh(),
            None => self.norm.as_ref().expect("kept").forward(input),
        }
    }

    fn loss(&self, output: Tensor<2>, target: Tensor<2>, _: &Context) -> Tensor<1> {
        (output - target).square().mean()
    }
}

fn trainer(widths: &[usize], stages: usize, optimizer: impl Into<ModuleOptimizer>) -> Trainer<Mlp> {
    TrainerBuilder::new()
        .stages(stages)
        .devices([Device::default()])
        .train(Mlp::new(widths), optimizer)
        .expect("it fits")
}

fn step(trainer: &mut Trainer<Mlp>) -> f64 {
    let device = Device::default();
    let batch = MicroBatch {
        input: Tensor::from_data([[0.5, -1.0, 2.0, 0.25], [1.0, 0.0, -0.5, 3.0]], &device),
        target: Tensor::zeros([2, 4], &device),
        weight: 2,
    };
    trainer.step(0.01, vec![batch]).expect("a step").loss()
}

const WIDTHS: [usize; 4] = [4, 4, 4, 4];

/// A trainer after two steps, its save, and the folder that has it.
fn saved() -> (Trainer<Mlp>, Save, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut trainer = trainer(&WIDTHS, 2, AdamWConfig::new().init());
    step(&mut trainer);
    step(&mut trainer);
    let save = trainer.save(&Saves::new(folder.path()), &"about");
    (trainer, save.expect("saved"), folder)
}

#[test]
fn a_save_of_another_model_is_refused_with_the_parameter_and_changes_nothing() {
    let (_, save, _folder) = saved();
    let cases: [(&[usize], &str, &str); 3] = [
        (&[4, 4, 4], "layers.2.", "this one has no parameter"),
        (&[4, 4, 4, 4, 4], "layers.3.", "it has no parameter"),
        (
            &[4, 5, 4, 4],
            "layers.0.bias",
            "F32 [4], here it is F32 [5]",
        ),
    ];
    for (widths, parameter, what) in cases {
        let mut other = trainer(widths, 1, AdamWConfig::new().init());
        let before = other.parameters().expect("parameters");
        for error in [other.resume(&save), other.load_weights(&save)] {
            let error = error.expect_err("another model").to_string();
            assert!(error.contains(parameter) && error.contains(what), "{error}");
        }
        assert_eq!(before, other.parameters().expect("parameters"));
        assert_eq!(other.steps(), 0);
    }
}

#[test]
fn a_save_of_another_optimizer_is_refused_but_its_weights_can_be_had() {
    let (mut original, save, _folder) = saved();
    let momentum = MomentumConfig::new();
    let sgd = SgdConfig::new().with_momentum(Some(momentum)).init();
    let mut other = trainer(&WIDTHS, 3, sgd);
    let before = other.parameters().expect("parameters");
    let error = other.resume(&save).expect_err("another optimizer");
    assert!(matches!(&error, LoadError::Optimizer { .. }), "{error}");
    assert_eq!(before, other.parameters().expect("parameters"));

    other.load_weights(&save).expect("the same model");
    let found = other.parameters().expect("parameters");
    assert_eq!(found, original.parameters().expect("parameters"));
    assert_eq!(other.steps(), 0);
}

#[test]
fn a_file_that_lost_or_changed_a_byte_is_refused_by_name() {
    let (mut trainer, save, _folder) = saved();
    trainer.resume(&save).expect("whole");
    let files = [WEIGHTS, STATES, ABOUT, MANIFEST];
    for name in files {
        let path = save.path().join(name);
        let whole = fs::read(&path).expect("read");
        let mut changed = whole.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 4;
        for damaged in [&whole[..whole.len() - 3], &[], changed.as_slice()] {
            fs::write(&path, damaged).expect("written");
            let error = used(&mut trainer, save.path()).expect_err("damaged");
            let error = error.to_string();
            assert!(error.contains(name) && error.contains("damaged"), "{error}");
        }
        fs::remove_file(&path).expect("removed");
        let error = used(&mut trainer, save.path()).expect_err("missing");
        assert!(error.to_string().contains(name), "{error}");
        fs::write(&path, whole).expect("written");
    }
    used(&mut trainer, save.path()).expect("whole again");
}

/// Everything there is to read in a save.
fn used(trainer: &mut Trainer<Mlp>, path: &Path) -> Result<(), LoadError> {
    let save = Save::open(path)?;
    let about: String = save.about()?;
    assert_eq!(about, "about");
    trainer.resume(&save)
}

#[test]
fn a_later_format_is_told_from_damage() {
    let (_, save, _folder) = saved();
    let path = save.path().join(MANIFEST);
    for later in [
        r#"{"save": {"format": 2, "step": 1, "seed": 0, "files": {}}, "crc32": 0}"#,
        r#"{"save": {"format": 9, "shards": 4}}"#,
    ] {
        fs::write(&path, later).expect("written");
        let error = Save::open(save.path()).expect_err("later");
        assert!(matches!(error, LoadError::Format { .. }), "{error}");
    }
}

/// Files whose bytes were exchanged and whose checksums were made to fit, so that what reads them
/// sees them.
#[test]
fn forged_saves_never_panic_and_never_change_the_trainer_in_part() {
    let (mut trainer, save, _folder) = saved();
    let files = [WEIGHTS, STATES, ABOUT];
    let whole = files.map(|name| fs::read(save.path().join(name)).expect("read"));
    let before = trainer.parameters().expect("parameters");
    let change = (0..3usize, 0..4u8, any::<prop::sample::Index>(), any::<u8>());
    let mut runner = TestRunner::deterministic();
    let mut accepted = 0;
    // Not shrunk: a trainer that has been changed cannot be asked again.
    for _ in 0..400 {
        let tree = change.new_tree(&mut runner).expect("a change");
        let (file, kind, place, value) = tree.current();
        let mut bytes = whole[file].clone();
        // Headers come first: what lies behind them is numbers, of which any will do.
        let place = place.index(bytes.len().min(900));
        match kind {
            0 => bytes.truncate(place),
            1 => bytes[place] = value,
            2 => drop(bytes.drain(place..(place + 8).min(bytes.len()))),
            _ => bytes[place] = b'0' + value % 10,
        }
        reseal(&save, files[file], &bytes);
        let outcome = Save::open(save.path()).and_then(|forged| {
            forged.about::<String>()?;
            trainer.resume(&forged)
        });
        match outcome {
            Ok(()) => accepted += 1,
            Err(_) => assert_eq!(before, trainer.parameters().expect("parameters")),
        }
        reseal(&save, files[file], &whole[file]);
        // The save itself remembers the seals it had.
        trainer.resume(&save).expect("whole again");
    }
    assert!(accepted < 400, "no change was noticed");
}

/// Puts `bytes` in the place of a file, with a checksum that fits.
fn reseal(save: &Save, name: &str, bytes: &[u8]) {
    let path = save.path().join(name);
    fs::write(&path, bytes).expect("written");
    let manifest = save.path().join(MANIFEST);
    let mut forged = Manifest::read(&manifest).expect("a manifest");
    let seal = Seal::of(&mut fs::File::open(&path).expect("there")).expect("read");
    forged.files.insert(name.to_owned(), seal);
    fs::write(&manifest, forged.text().expect("text")).expect("written");
}

#[test]
fn names_of_saves_are_in_order_of_time_and_nothing_else_is_one() {
    let (mut trainer, first, folder) = saved();
    for name in [
        "notes",
        "x-step-1",
        "000009-step-",
        "-step-4",
        "000003-step-1x",
    ] {
        fs::create_dir(folder.path().join(name)).expect("created");
    }
    fs::create_dir(folder.path().join("000002-step-2.part")).expect("created");
    let saves = Saves::new(folder.path()).keep(2);
    assert_eq!(saves.all().expect("read"), [first.path()]);
    // The trainer goes back to an earlier step, and its save is the newest all the same.
    step(&mut trainer);
    let second = trainer.save(&saves, &()).expect("saved");
    trainer.resume(&first).expect("resumed");
    let third = trainer.save(&saves, &()).expect("saved");
    assert_eq!((second.step(), third.step()), (3, 2));
    assert_eq!(saves.all().expect("read"), [second.path(), third.path()]);
    assert_eq!(saves.latest().expect("some"), third);
    assert!(third.path().ends_with("000003-step-2"));
    assert!(!folder.path().join("000002-step-2.part").exists());
}
