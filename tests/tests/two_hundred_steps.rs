//! Long runs in which another thing is recomputed in every step, elsewhere, and whose training goes
//! on as if nothing were recomputed at all.

use std::collections::BTreeSet;
use std::time::Duration;

use burn::optim::AdamWConfig;
use burn::prelude::*;
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::partition::Partition;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::plan::sim::Window;
use lynx_burn::units::Nanos;
use lynx_burn::{BackwardReport, Overlap, Trainer, TrainerBuilder};
use lynx_tests::oracle::{Plain, assert_same_bytes, parameter_values};
use lynx_tests::overlap::{Dice, per_segment};
use lynx_tests::shares::{Shares, SharesSpec};
use lynx_tests::watchdog::within;

const LAYERS: usize = 4;
const MICRO_BATCHES: usize = 5;
const STEPS: usize = 200;
const SEED: u64 = 5;

/// Everything, whole layers, and parts of a layer whose recompute needs what is kept or what is made
/// anew.
const POLICIES: [&str; 5] = [
    "recompute",
    "uniform:1",
    "uniform:2",
    "selective:up,narrow",
    "selective:down,wide",
];

/// What may be done ahead in a step, by chance.
fn told(dice: &mut Dice, partition: &Partition) -> (Overlap, Option<Vec<Vec<Advance>>>) {
    match dice.roll(4) {
        0 => (Overlap::Never, None),
        1 => (Overlap::Opportunistic, None),
        _ => {
            let of = [
                Advance::Always,
                Advance::Always,
                Advance::CoolDown,
                Advance::Never,
            ];
            let allowed = per_segment(partition, || *dice.pick(&of));
            (Overlap::Planned, Some(allowed))
        }
    }
}

fn hidden(report: &BackwardReport) -> impl Iterator<Item = Window> {
    let stages = report.stages.iter();
    let all = stages.flat_map(|stage| stage.times.hidden.iter());
    all.filter(|(_, time)| *time > Nanos(0))
        .map(|(window, _)| window)
}

/// Takes all steps with chance's decisions; `check` sees the losses of each step. Returns the kinds of
/// windows that hid something.
fn run(
    trainer: &mut Trainer<Shares>,
    spec: &SharesSpec,
    mut check: impl FnMut(usize, &[lynx_burn::MicroBatch<Shares>], &[f64]),
) -> BTreeSet<Window> {
    let device = Device::flex().autodiff();
    let mut dice = Dice(trainer.partition().stages() as u64);
    let mut windows = BTreeSet::new();
    for step in 0..STEPS {
        let policy = dice.pick(&POLICIES).parse().expect("a policy");
        let (overlap, ahead) = told(&mut dice, trainer.partition());
        trainer.replan(&policy, overlap, ahead).expect("it fits");
        let samples = 1 + dice.roll(4);
        let batches: Vec<_> = (0..MICRO_BATCHES)
            .map(|_| spec.batch(samples, &device))
            .collect();
        let report = trainer
            .step(0.003, batches.clone())
            .expect("a step")
            .backward;
        assert!(report.recomputed() > 0);
        windows.extend(hidden(&report));
        check(step, &batches, &report.losses);
    }
    windows
}

fn builder(stages: usize, kind: Kind) -> TrainerBuilder {
    let speed = "200MB/s,100us".parse().expect("a speed");
    TrainerBuilder::new()
        .stages(stages)
        .schedule(kind)
        .seed(SEED)
        .link(speed)
        .collective_link(speed)
}

#[test]
fn on_one_to_four_stages_all_of_them_give_the_bits_of_plain_autodiff() {
    within(Duration::from_secs(250), || {
        let device = Device::flex().autodiff();
        let spec = SharesSpec::new(LAYERS);
        let model = spec.init(&device);
        let optimizer = || AdamWConfig::new().init();
        let mut windows = BTreeSet::new();
        for stages in 1..=4 {
            for kind in [Kind::OneFOneB, Kind::GPipe] {
                if kind == Kind::GPipe && stages != 2 {
                    continue;
                }
                let what = format!("{kind}, p = {stages}");
                let trainer = builder(stages, kind).train(model.clone(), optimizer());
                let mut trainer = trainer.expect("it fits");
                let mut plain = Plain::new(model.clone(), optimizer(), SEED);
                windows.extend(run(&mut trainer, &spec, |step, batches, losses| {
                    assert_eq!(losses, plain.step(0.003, batches), "{what}, step {step}");
                }));
                let found = trainer.parameters().expect("parameters");
                assert_same_bytes(&what, &found, &parameter_values(&plain.model));
            }
        }
        // Without ranks there are no sums to wait for.
        assert_eq!(windows, BTreeSet::from([Window::Recv, Window::Bubble]));
    });
}

#[test]
fn on_two_ranks_all_of_them_give_the_bits_of_a_run_that_recomputes_nothing() {
    within(Duration::from_secs(250), || {
        let device = Device::flex().autodiff();
        let spec = SharesSpec::new(LAYERS);
        let model = spec.init(&device);
        let mut windows = BTreeSet::new();
        for stages in [1, 2] {
            let what = format!("p = {stages}");
            let make = |builder: TrainerBuilder| {
                let trainer = builder.train(model.clone(), AdamWConfig::new().init());
                trainer.expect("it fits")
            };
            let mut trainer = make(builder(stages, Kind::OneFOneB).ranks(2));
            let quick = TrainerBuilder::new().stages(stages).seed(SEED);
            let mut other = make(quick.ranks(2));
            windows.extend(run(&mut trainer, &spec, |step, batches, losses| {
                let expected = other
                    .step(0.003, batches.to_vec())
                    .expect("a step")
                    .backward;
                assert_eq!(expected.recomputed(), 0);
                assert_eq!(losses, expected.losses, "{what}, step {step}");
            }));
            let found = trainer.parameters().expect("parameters");
            assert_same_bytes(&what, &found, &other.parameters().expect("parameters"));
        }
        let sums = [Window::F1, Window::F2, Window::B1, Window::B2];
        assert!(sums.iter().all(|sum| windows.contains(sum)), "{windows:?}");
    });
}
