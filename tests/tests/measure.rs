//! Profiles that are measured: whose figures are known by hand, and chains that have none.

use std::time::Instant;

use burn::module::{ModuleMapper, Param};
use burn::optim::SgdConfig;
use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::model::Gpt;
use lynx_burn::ids::SegmentId;
use lynx_burn::measure::{MeasureError, MeasureOptions, Measured, SegmentFailure, measure};
use lynx_burn::memory::{TrackingAllocator, live_bytes};
use lynx_burn::plan::layout::ChainLayout;
use lynx_burn::plan::profile::{ModelProfile, SegmentProfile, WeightBytes};
use lynx_burn::units::{Bytes, Nanos};
use lynx_burn::{Cause, Chain, MicroBatch, Pass, TrainerBuilder};
use lynx_tests::chains::{Fault, Misbehaviour, NetSpec, Step};
use lynx_tests::gpts;
use lynx_tests::watchdog::alone;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

const WIDTH: usize = 64;
const SAMPLES: usize = 256;
/// Bytes of a hidden state.
const HIDDEN: u64 = (SAMPLES * WIDTH * 4) as u64;
/// Bytes of a square matrix of parameters.
const WEIGHT: u64 = (WIDTH * WIDTH * 4) as u64;

fn quick() -> MeasureOptions {
    MeasureOptions {
        warm_up: 1,
        repeats: 3,
        ..MeasureOptions::default()
    }
}

fn run<C: Chain>(model: C, batch: MicroBatch<C>, options: &MeasureOptions) -> Measured {
    let device = Device::flex();
    measure(model, batch.input, batch.target, &device, options).expect("a chain that runs")
}

fn net(spec: &NetSpec, options: &MeasureOptions) -> Result<Measured, MeasureError> {
    let device = Device::flex();
    let batch = spec.batch(SAMPLES, &device);
    let model = spec.init(&device.clone().autodiff());
    measure(model, batch.input, batch.target, &device, options)
}

fn wide(steps: Vec<Step>, per_layer: usize) -> NetSpec {
    let mut spec = NetSpec::new(steps);
    spec.width = WIDTH;
    spec.per_layer = per_layer;
    spec
}

fn fault_in(segment: usize, kind: Misbehaviour) -> Option<Fault> {
    let micro_batch = 0;
    Some(Fault {
        segment,
        micro_batch,
        kind,
    })
}

fn config() -> GptConfig {
    GptConfig {
        d_model: WIDTH,
        context: 64,
        ..gpts::config(4, 0.1)
    }
}

fn gpt() -> Gpt {
    gpts::gpt(&config())
}

fn batches(count: usize) -> Vec<MicroBatch<Gpt>> {
    gpts::batches(&config(), 4 * count, count)
}

#[test]
fn the_bytes_of_a_chain_of_tanh_are_those_counted_by_hand() {
    alone(|| {
        // tanh(x W): the product keeps x, and Burn's tanh keeps its argument.
        let measured = net(&wide(vec![Step::Tanh; 4], 2), &quick()).expect("a profile");
        let profile = &measured.profile;
        assert_eq!(profile.name, "Net");
        let [first, last] = &profile.kinds[..] else {
            panic!("a kind with the loss and one without: {profile:?}");
        };
        assert_eq!((profile.layers[0].count, profile.layers[1].count), (1, 1));
        let expected = |times: &SegmentProfile, tape: u64, boundary: u64| SegmentProfile {
            name: "tanh".to_owned(),
            tape: Bytes(tape),
            // The masks and the numbers of the rows have been handed in and pass through. Who has
            // to run the first segment again has to keep them; behind a retained segment too.
            kept_input: Bytes(2 * HIDDEN + HIDDEN / 4),
            boundary: Bytes(boundary),
            weights: WeightBytes {
                parameters: Bytes(WEIGHT),
                gradients: Bytes(WEIGHT),
                optimizer: Bytes(2 * WEIGHT),
            },
            ..times.clone()
        };
        let passing = 2 * HIDDEN + HIDDEN / 4 + 4 * SAMPLES as u64;
        for segment in first.segments.iter().chain(&last.segments[..1]) {
            assert_eq!(*segment, expected(segment, 2 * HIDDEN, passing));
        }
        // The loss keeps the difference that it squares, and is one number.
        let end = &last.segments[1];
        assert_eq!(*end, expected(end, 3 * HIDDEN, 4));
    });
}

#[test]
fn notes_are_counted_by_hand_and_are_no_part_of_kept_inputs() {
    alone(|| {
        let windows = 16;
        let rows = (windows * config().context) as u64;
        let batch = gpts::batches(&config(), windows, 1).remove(0);
        let profile = run(gpt(), batch, &quick()).profile;
        // Mean and deviation of each row; a log-sum-exp a row and head, or a row.
        let norm = 2 * 4 * rows;
        let attention = 4 * rows * config().heads as u64;
        let layer: Vec<_> = profile.kinds[0].segments.iter().collect();
        let notes: Vec<u64> = layer.iter().map(|segment| segment.notes.0).collect();
        assert_eq!(notes, [norm, attention, 0, norm, 0]);
        assert_eq!(profile.head[0].notes.0, norm + 4 * rows);
        // What goes into attention: queries, keys and values.
        let width = 4 * WIDTH as u64;
        assert_eq!(layer[1].kept_input.0, 3 * width * rows);
        // They are on the tape too: attention keeps its input, its output, and these.
        assert_eq!(layer[1].tape.0, 4 * width * rows + attention);
    });
}

/// Has a model learn nothing below its last layer.
struct Freeze(Vec<String>);

impl ModuleMapper for Freeze {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.0.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.0.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let learns = self.0.join(".").starts_with("layers.3");
        param.set_require_grad(learns)
    }
}

#[test]
fn where_nothing_learns_nothing_is_noted() {
    alone(|| {
        let windows = 16;
        let batch = gpts::batches(&config(), windows, 1).remove(0);
        let options = MeasureOptions {
            every_layer: true,
            ..quick()
        };
        let profile = run(gpt().map(&mut Freeze(Vec::new())), batch, &options).profile;
        let notes: Vec<u64> = profile.segments().map(|s| s.notes.0).collect();
        // The embedding and three layers of five segments; then a layer, and the head.
        assert_eq!(notes[..16], [0; 16]);
        assert!(notes[16] > 0 && notes[17] > 0, "{notes:?}");
    });
}

#[test]
fn like_layers_are_measured_once_and_what_is_tied_is_said() {
    alone(|| {
        let one = run(gpt(), batches(1).remove(0), &quick());
        let profile = &one.profile;
        assert_eq!(profile.kinds.len(), 1);
        assert_eq!(profile.layer_count(), 4);
        assert_eq!(profile.embedding.len() + profile.head.len(), 2);
        let chain = ChainLayout::new(gpt().segments()).expect("a chain");
        let alone = chain.without_collectives();
        assert_eq!(profile.layout().expect("a chain"), alone);
        // The token embedding is the head's weight: 256 rows.
        let table = 256 * WIDTH as u64 * 4;
        assert_eq!(profile.tied.parameters, Bytes(table));
        assert_eq!(profile.tied.optimizer, Bytes(2 * table));
        let parameters = profile.weights().parameters.0;
        // Per layer: 12 d d weights, 9 d biases, 4 d of norms; then positions and the final norm.
        let d = WIDTH as u64;
        let layer = 12 * d * d + 9 * d + 4 * d;
        assert_eq!(parameters, 4 * (256 * d + 64 * d + 4 * layer + 2 * d));

        // The first layer gets no residual stream from the embedding, the one that was measured does.
        let every = MeasureOptions {
            every_layer: true,
            ..quick()
        };
        let every = run(gpt(), batches(1).remove(0), &every).profile;
        let kept = |profile: &ModelProfile| -> Vec<(Bytes, Bytes)> {
            profile.segments().map(|s| (s.tape, s.kept_input)).collect()
        };
        assert_eq!(kept(profile), kept(&every));

        let table = one.to_string();
        for word in [
            "Gpt",
            "embedding",
            "layer x 4",
            "attention",
            "head",
            "workspace",
        ] {
            assert!(table.contains(word), "no {word} in\n{table}");
        }
    });
}

#[test]
fn below_the_first_parameter_that_learns_nothing_is_kept_and_nothing_goes_back() {
    alone(|| {
        let mut spec = wide(vec![Step::Dense, Step::Tanh, Step::Dense, Step::Tanh], 1);
        spec.frozen = vec![0, 1];
        let profile = net(&spec, &quick()).expect("a profile").profile;
        let segments: Vec<_> = profile.segments().collect();
        for frozen in &segments[..2] {
            assert_eq!((frozen.tape, frozen.kept_input), (Bytes(0), Bytes(0)));
            assert_eq!(
                frozen.backward().saturating_add(frozen.recompute),
                Nanos::ZERO
            );
            assert!(frozen.forward > Nanos::ZERO && frozen.weights.parameters > Bytes(0));
            assert_eq!(frozen.weights.gradients, Bytes(0));
        }
        assert!(segments[2].tape > Bytes(0) && segments[2].backward() > Nanos::ZERO);
        spec.frozen = vec![0, 1, 2, 3];
        let error = net(&spec, &quick()).expect_err("nothing learns");
        assert!(matches!(error, MeasureError::NothingTrainable), "{error}");
    });
}

#[test]
fn a_panic_in_the_model_is_an_error_that_names_the_segment_and_leaves_nothing() {
    alone(|| {
        let mut spec = wide(vec![Step::Norm, Step::Dense, Step::Gate], 1);
        spec.fault = fault_in(1, Misbehaviour::Panic);
        let fail = |spec: &NetSpec| net(spec, &quick()).expect_err("it panics");
        let MeasureError::Segment(failure) = fail(&spec) else {
            panic!("another error");
        };
        let SegmentFailure { name, place, cause } = *failure;
        assert_eq!(name, "dense");
        assert_eq!(
            (place.segment, place.pass),
            (Some(SegmentId(1)), Some(Pass::Forward))
        );
        assert!(matches!(cause, Cause::Panic(text) if text == "injected"));
        let before = live_bytes();
        for _ in 0..5 {
            fail(&spec);
        }
        let after = live_bytes();
        assert!(after < before + HIDDEN, "{before} became {after}");
        // A segment that is no function of its input.
        spec.fault = fault_in(1, Misbehaviour::WrongShapeAgain);
        let error = fail(&spec).to_string();
        assert!(error.starts_with("measuring "), "{error}");
        spec.fault = None;
        net(&spec, &quick()).expect("nothing is wrong any more");
    });
}

#[test]
fn the_sum_of_the_segments_times_is_about_that_of_a_step() {
    alone(|| {
        let measured = run(gpt(), batches(1).remove(0), &MeasureOptions::default());
        let segments = measured.profile.segments();
        let sum: Nanos = segments.flat_map(|s| [s.forward, s.backward()]).sum();
        let mut trainer = TrainerBuilder::new()
            .train(gpt(), SgdConfig::new().init())
            .expect("it fits");
        let mut times: Vec<f64> = (0..7)
            .map(|_| {
                let step = batches(4);
                let begin = Instant::now();
                trainer.backward(step).expect("a backward");
                begin.elapsed().as_secs_f64() / 4.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let ratio = sum.seconds() / times[3];
        // Nearly 1 on an idle machine. The bounds are wide because tests share theirs.
        assert!(
            (0.4..2.5).contains(&ratio),
            "{ratio} times a step\n{measured}"
        );
    });
}
