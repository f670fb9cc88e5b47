//! A run that goes on from a save is the run that was never broken.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use burn::module::ParamGroup;
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::prelude::*;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::{MicroBatch, NonFinite, Save, Saves, Trainer, TrainerBuilder};
use lynx_tests::chains::{Net, NetSpec, Step};
use lynx_tests::oracle::assert_same_bytes;
use lynx_tests::saves::Contents;
use lynx_tests::watchdog::within;

const STEPS: [Step; 6] = [
    Step::Open,
    Step::Norm,
    Step::Dense,
    Step::Drop,
    Step::Close,
    Step::Dense,
];

/// A number of stages, a schedule and a policy.
type Cut = (usize, Kind, &'static str);

fn trainer(model: Net, (stages, kind, policy): Cut, optimizer: ModuleOptimizer) -> Trainer<Net> {
    TrainerBuilder::new()
        .stages(stages)
        .schedule(kind)
        .policy(policy.parse::<Policy>().expect("a policy"))
        .clip_norm(0.5)
        .non_finite(NonFinite::SkipUpdate)
        .seed(5)
        .train(model, optimizer)
        .expect("it fits")
}

/// Two groups of parameters, of which Burn remembers by path who is in which.
fn optimizer() -> ModuleOptimizer {
    let adam = AdamWConfig::new().with_weight_decay(0.0);
    let decayed = adam.clone().with_weight_decay(0.3).build();
    let matrices = ParamGroup::from_predicate(".weight");
    adam.init().with_group(matrices, decayed, None)
}

/// The same numbers in every process.
fn batches(spec: &NetSpec, step: u64) -> Vec<MicroBatch<Net>> {
    let device = Device::flex();
    let values = |salt: u64, [rows, columns]: [usize; 2]| {
        let values: Vec<f32> = (0..rows * columns)
            .map(|index| {
                ((index as u64 * 7919 + step * 104_729 + salt) % 2003) as f32 / 1000.0 - 1.0
            })
            .collect();
        Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), &device)
    };
    let template = spec.batch(3, &device);
    (0..3u64)
        .map(|part| {
            let mut batch = template.clone();
            let shape = [3, spec.width];
            batch.input.hidden = values(3 * part, shape);
            batch.input.scale.0 = values(3 * part + 1, shape);
            batch.input.blank = values(3 * part + 2, shape).greater_elem(0.8);
            batch.target = values(3 * part + 77, shape);
            batch
        })
        .collect()
}

fn run(trainer: &mut Trainer<Net>, spec: &NetSpec, steps: std::ops::Range<u64>) -> Vec<f64> {
    steps
        .map(|step| {
            assert_eq!(trainer.steps(), step);
            trainer
                .step(0.01, batches(spec, step))
                .expect("a step")
                .loss()
        })
        .collect()
}

/// Case 20.
#[test]
fn a_run_resumed_with_other_stages_schedule_and_policy_has_the_same_bits() {
    within(Duration::from_secs(200), || {
        let mut spec = NetSpec::new(STEPS);
        // One layer is frozen: it is saved, and has no state of an optimizer.
        spec.frozen = vec![1];
        let model = spec.init(&Device::flex().autodiff());
        let first: Cut = (2, Kind::OneFOneB, "recompute");
        let mut unbroken = trainer(model, first, optimizer());
        let folder = tempfile::tempdir().expect("a folder");
        let saves = Saves::new(folder.path());
        let before = run(&mut unbroken, &spec, 0..4);
        let save = unbroken.save(&saves, &before).expect("saved");
        let after = run(&mut unbroken, &spec, 4..9);
        let expected = unbroken.parameters().expect("parameters");

        let cuts: [Cut; 4] = [
            (1, Kind::OneFOneB, "retain"),
            (4, Kind::GPipe, "selective:dense"),
            (6, Kind::OneFOneB, "every:2"),
            first,
        ];
        for cut in cuts {
            // Other initial values, so that nothing can have come from anywhere but the save.
            let model = spec.init(&Device::flex().autodiff());
            let mut resumed = trainer(model, cut, optimizer());
            // And another seed and moments of its own, for the same reason.
            run(&mut resumed, &spec, 0..2);
            resumed.resume(&save).expect("of this model");
            assert_eq!(resumed.steps(), 4);
            assert_eq!(run(&mut resumed, &spec, 4..9), after, "{cut:?}");
            let found = resumed.parameters().expect("parameters");
            assert_same_bytes(&format!("{cut:?}"), &found, &expected);
        }
        // JSON's reader may miss the last bit.
        let about = save.about::<Vec<f64>>().expect("what was added");
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-15;
        assert!(about.len() == before.len() && about.iter().zip(&before).all(close));
    });
}

#[test]
fn a_save_does_not_depend_on_the_stages_that_wrote_it_and_has_a_tied_parameter_once() {
    within(Duration::from_secs(100), || {
        let spec = NetSpec::new(vec![Step::Shared, Step::Dense, Step::Norm, Step::Shared]);
        let model = spec.init(&Device::flex().autodiff());
        let folder = tempfile::tempdir().expect("a folder");
        let cut = |stages| (stages, Kind::OneFOneB, "recompute");
        let mut one = trainer(model.clone(), cut(1), optimizer());
        run(&mut one, &spec, 0..3);
        let first = one
            .save(&Saves::new(folder.path().join("1")), &())
            .expect("saved");
        let mut others = Vec::new();
        for stages in [2, 4] {
            let mut many = trainer(model.clone(), cut(stages), optimizer());
            many.resume(&first).expect("of this model");
            assert_eq!(many.tied_parameters().count(), 2);
            let path = folder.path().join(stages.to_string());
            others.push(many.save(&Saves::new(path), &()).expect("saved"));
        }
        let contents = Contents::of(&first);
        for other in &others {
            assert!(Contents::of(other) == contents, "{:?}", other.path());
            assert_eq!(first.step(), other.step());
            assert_eq!(first.seed(), other.seed());
        }
        let names = contents.header.to_string();
        assert_eq!(names.matches("shared.weight").count(), 1, "{names}");
        assert!(names.contains("cells.1.linear.weight"), "{names}");
    });
}

const CHILD: &str = "LYNX_SAVES_CHILD";

/// Not a test by itself: the process that the next test kills. It trains and saves after every step.
#[test]
fn child_that_saves_after_every_step() {
    let Ok(folder) = std::env::var(CHILD) else {
        return;
    };
    let spec = NetSpec::new(STEPS);
    let saves = Saves::new(folder).keep(3);
    let mut trainer = killed_trainer(&spec);
    let save = saves.latest().expect("the last save is whole");
    trainer.resume(&save).expect("of this model");
    println!("\ngoing on from {}", trainer.steps());
    loop {
        let step = trainer.steps();
        trainer.step(0.01, batches(&spec, step)).expect("a step");
        trainer.save(&saves, &step).expect("saved");
        println!("saved");
    }
}

fn killed_trainer(spec: &NetSpec) -> Trainer<Net> {
    let model = spec.init(&Device::flex().autodiff());
    trainer(model, (2, Kind::OneFOneB, "recompute"), optimizer())
}

/// What the run has learnt after so many steps, if nothing ends it.
struct Unbroken {
    trainer: Trainer<Net>,
    spec: NetSpec,
    known: BTreeMap<u64, BTreeMap<String, TensorData>>,
}

impl Unbroken {
    fn after(&mut self, steps: u64) -> &BTreeMap<String, TensorData> {
        while self.trainer.steps() < steps {
            let step = self.trainer.steps();
            run(&mut self.trainer, &self.spec, step..step + 1);
            let found = self.trainer.parameters().expect("parameters");
            self.known.insert(step + 1, found);
        }
        &self.known[&steps]
    }
}

#[test]
fn killed_at_random_instants_over_more_than_50_saves_a_run_always_goes_on_from_its_last() {
    within(Duration::from_secs(400), || {
        let folder = tempfile::tempdir().expect("a folder");
        let spec = NetSpec::new(STEPS);
        // The child has the same initial values from the first save.
        let mut trainer = killed_trainer(&spec);
        let saves = Saves::new(folder.path()).keep(3);
        trainer.save(&saves, &0).expect("saved");
        let mut unbroken = Unbroken {
            trainer,
            spec: spec.clone(),
            known: BTreeMap::new(),
        };
        let mut resumed = killed_trainer(&spec);
        let (mut last, mut torn, mut round) = (0, 0, 0u64);
        while round < 40 || last < 50 || torn == 0 {
            round += 1;
            kill_after(folder.path(), round as usize % 3, round * 7919 % 1000);
            torn += count_parts(folder.path());
            let save = saves.latest().expect("the last save is whole");
            // It has gone on from there: a kill comes after another save at the earliest.
            assert!(save.step() > last, "{} after {last}", save.step());
            last = save.step();
            resumed.resume(&save).expect("the last save is whole");
            let found = resumed.parameters().expect("parameters");
            assert_same_bytes("after a kill", &found, unbroken.after(last));
            // All that are there are whole, not the last alone.
            for path in saves.all().expect("read") {
                let save = Save::open(path).expect("whole");
                resumed.resume(&save).expect("whole");
            }
        }
        eprintln!("{last} saves, {round} kills, {torn} of them within a save");
    });
}

/// Lets the child go on from the last save and kills it when it has written `saves` of them, or one,
/// and so many thousandths of the time that one takes have passed since.
fn kill_after(folder: &Path, saves: usize, thousandths: u64) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args([
            "child_that_saves_after_every_step",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut said = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut wait_for = |word: &str| {
        let found = said.any(|line| line.is_ok_and(|line| line.starts_with(word)));
        assert!(found, "the child ended");
    };
    wait_for("going on from");
    let begun = Instant::now();
    let saves = saves.max(1);
    for _ in 0..saves {
        wait_for("saved");
    }
    let each = begun.elapsed() / saves as u32;
    std::thread::sleep(each * thousandths as u32 / 1000);
    // SIGKILL on Unix.
    child.kill().expect("killed");
    child.wait().expect("ended");
}

fn count_parts(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("read");
    let names = entries.map(|entry| entry.expect("read").file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".part"))
        .count()
}
