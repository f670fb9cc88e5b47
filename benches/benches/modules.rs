//! A GPT of fused operations against the same GPT of Burn's: speed, gradients, losses, and where the
//! time goes.
//!
//! Both have the same parameters, data and dropout masks. The loop is plain Burn, without pipeline or
//! recomputation, so that nothing else is measured.

use std::collections::BTreeMap;
use std::path::Path;

use burn::optim::AdamWConfig;
use burn::prelude::*;
use gpt_example::config::{GptConfig, Modules};
use gpt_example::data::micro_batches;
use gpt_example::model::Gpt;
use lynx_benches::frameworks::problem::{BATCH, CONFIG, LEARNING_RATE};
use lynx_benches::machine::Machine;
use lynx_benches::rounds::{Timing, Variant, table, take_turns};
use lynx_burn::MicroBatch;
use lynx_burn::measure::{MeasureOptions, measure};
use lynx_burn::memory::{TrackingAllocator, live_bytes, peak_bytes, reset_peak};
use lynx_tests::oracle::{Plain, gradient_bytes};
use plotters::prelude::*;
use serde::Serialize;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

const ROUNDS: usize = 7;
/// Steps of the two loss curves.
const STEPS: usize = 40;
const SEED: u64 = 1;
const BOTH: [(&str, Modules); 2] = [
    ("Burn's modules", Modules::Burn),
    ("fused modules", Modules::Lynx),
];

/// What a segment costs, in milliseconds and bytes.
#[derive(Serialize)]
struct Piece {
    segment: String,
    /// How many of them a step runs.
    times: usize,
    forward_ms: [f64; 2],
    backward_ms: [f64; 2],
    tape_bytes: [u64; 2],
}

#[derive(Serialize)]
struct Results {
    machine: Machine,
    model: String,
    parameters: usize,
    rounds: usize,
    steps: Vec<Timing>,
    with_dropout: Vec<Timing>,
    tokens_per_second: [f64; 2],
    peak_bytes: [u64; 2],
    /// The largest difference of two gradients of a parameter, over the parameter's largest.
    gradient_difference: f64,
    breakdown: Vec<Piece>,
    optimizer_ms: f64,
    losses: [Vec<f64>; 2],
}

fn main() {
    // `cargo test --benches` asks for a list of tests; there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let gradient_difference = gradients();
    let steps = timings(&CONFIG);
    let dropped = GptConfig {
        dropout: 0.1,
        ..CONFIG
    };
    let tokens = (BATCH * CONFIG.context) as f64;
    let results = Results {
        machine: Machine::here(),
        model: format!("{CONFIG:?}, batch {BATCH}"),
        parameters: CONFIG.parameters(),
        rounds: ROUNDS,
        tokens_per_second: [0, 1].map(|side: usize| tokens * 1e3 / steps[side].step_ms_median),
        steps,
        with_dropout: timings(&dropped),
        peak_bytes: BOTH.map(|(_, modules)| peak(modules)),
        gradient_difference,
        breakdown: breakdown(),
        optimizer_ms: optimizer(),
        losses: BOTH.map(|(_, modules)| losses(modules)),
    };
    let text = markdown(&results);
    print!("{text}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let json = serde_json::to_string_pretty(&results).expect("plain numbers") + "\n";
    std::fs::write(format!("{folder}/modules.json"), json).expect("a file for results");
    std::fs::write(format!("{folder}/modules.md"), text).expect("a file for results");
    let path = format!("{folder}/modules.svg");
    draw(&results.losses, Path::new(&path)).expect("a plot");
}

fn model(config: &GptConfig, modules: Modules) -> Gpt {
    Gpt::new(config, SEED, &Device::flex().autodiff())
        .expect("a valid configuration")
        .with_modules(modules)
}

fn plain(config: &GptConfig, modules: Modules) -> Plain<Gpt> {
    Plain::new(model(config, modules), AdamWConfig::new().init(), SEED)
}

/// A batch of the text that the example trains on.
fn batch(step: usize) -> Vec<MicroBatch<Gpt>> {
    let text: Vec<u8> = (0..1u32 << 16)
        // Words of a small grammar: something to learn, and nothing to download.
        .map(|i| b"abcabdacbdcbadbc"[((i / 3) * 7 + i * i % 5) as usize % 16])
        .collect();
    let windows: Vec<usize> = (0..BATCH)
        .map(|i| (step * BATCH + i) * 997 % 65_000)
        .collect();
    let device = Device::flex();
    micro_batches(&text, &windows, CONFIG.context, 1, (&device, &device))
}

/// Compares the gradients of one step, before anything is timed.
fn gradients() -> f64 {
    let batch = batch(0);
    let of = |modules| {
        let plain = plain(&CONFIG, modules);
        let step = plain.backward(&batch);
        gradient_bytes(&plain.model, &step.gradients)
    };
    let (burns, ours): (BTreeMap<_, _>, BTreeMap<_, _>) = (of(Modules::Burn), of(Modules::Lynx));
    assert!(burns.keys().eq(ours.keys()), "the same parameters");
    let mut worst = 0f64;
    for (path, expected) in &burns {
        let expected: Vec<f64> = expected.iter::<f64>().collect();
        let scale = expected.iter().fold(0f64, |m, v| m.max(v.abs()));
        for (found, expected) in ours[path].iter::<f64>().zip(&expected) {
            worst = worst.max((found - expected).abs() / scale);
        }
    }
    assert!(worst < 1e-3, "gradients differ by {worst}");
    worst
}

fn timings(config: &GptConfig) -> Vec<Timing> {
    let batch = batch(0);
    let mut both = BOTH.map(|(name, modules)| (name, plain(config, modules)));
    let variants = both
        .iter_mut()
        .map(|(name, plain)| Variant {
            name,
            run: Box::new(|| {
                plain.step(LEARNING_RATE, &batch);
            }),
        })
        .collect();
    take_turns(variants, ROUNDS)
}

/// What a warm step needs above what is there between steps.
fn peak(modules: Modules) -> u64 {
    let (mut plain, batch) = (plain(&CONFIG, modules), batch(0));
    plain.step(LEARNING_RATE, &batch);
    let before = live_bytes();
    reset_peak();
    plain.step(LEARNING_RATE, &batch);
    peak_bytes().saturating_sub(before)
}

/// Where forward and backward spend their time, segment by segment.
fn breakdown() -> Vec<Piece> {
    let options = MeasureOptions {
        repeats: ROUNDS,
        ..MeasureOptions::default()
    };
    let [burns, ours] = BOTH.map(|(_, modules)| {
        let part = batch(0).remove(0);
        let model = model(&CONFIG, modules);
        measure(model, part.input, part.target, &Device::flex(), &options).expect("a measurement")
    });
    let ms = |nanos: lynx_burn::units::Nanos| nanos.0 as f64 / 1e6;
    burns
        .segments
        .iter()
        .zip(&ours.segments)
        .map(|(burns, ours)| Piece {
            segment: burns.costs.name.clone(),
            times: match burns.part.as_str() {
                "embedding" | "head" => 1,
                _ => CONFIG.layers,
            },
            forward_ms: [ms(burns.forward.median), ms(ours.forward.median)],
            backward_ms: [ms(burns.backward.median), ms(ours.backward.median)],
            tape_bytes: [burns.costs.tape.0, ours.costs.tape.0],
        })
        .collect()
}

/// The optimizer's part of a step, by itself.
fn optimizer() -> f64 {
    let mut plain = plain(&CONFIG, Modules::Lynx);
    let batch = batch(0);
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let gradients = plain.backward(&batch).gradients;
            let begin = std::time::Instant::now();
            plain.apply(LEARNING_RATE, vec![gradients]);
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.remove(0);
    lynx_benches::rounds::quantile(&times, 0.5)
}

fn losses(modules: Modules) -> Vec<f64> {
    let mut plain = plain(&CONFIG, modules);
    (0..STEPS)
        .flat_map(|step| plain.step(LEARNING_RATE, &batch(step)))
        .collect()
}

fn draw(losses: &[Vec<f64>; 2], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, (760, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = losses.iter().flatten().copied().fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption("Training loss, the same model and data", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d(0..STEPS, 0.0..most * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("step")
        .y_desc("loss")
        .light_line_style(WHITE)
        .draw()?;
    let burns = RGBColor(0xd9, 0x95, 0x3b);
    let ours = RGBColor(0x2e, 0x7d, 0x4f);
    chart
        .draw_series(LineSeries::new(
            losses[0].iter().copied().enumerate(),
            burns.stroke_width(6),
        ))?
        .label(BOTH[0].0)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], burns.stroke_width(6)));
    chart
        .draw_series(LineSeries::new(
            losses[1].iter().copied().enumerate(),
            ours.stroke_width(2),
        ))?
        .label(BOTH[1].0)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], ours.stroke_width(2)));
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    area.present()?;
    Ok(())
}

fn markdown(results: &Results) -> String {
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let [burns, ours] = results.tokens_per_second;
    let mut text = format!(
        "# Modules\n\nMeasured on: {}. GPT: {}, {} parameters, AdamW, plain Burn loop, the system's allocator; {} \
         interleaved rounds after one warm-up. The machine is shared with other builds: trust the \
         ratios, which are taken within a round.\n\n\
         Gradients of one step differ by at most {:.1e} of a parameter's largest.\n\n{}\n\
         {burns:.0} and {ours:.0} tokens/s. A step's peak above rest: {:.0} and {:.0} MiB.\n\n\
         With dropout 0.1:\n\n{}\n## Where the time goes\n\nEach segment alone, medians in \
         milliseconds; the optimizer {:.1} ms.\n\n\
         | segment | times | forward, Burn's | fused | backward, Burn's | fused | tape MiB, Burn's | fused |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        results.machine.line(),
        results.model,
        results.parameters,
        results.rounds,
        results.gradient_difference,
        table(&results.steps),
        mib(results.peak_bytes[0]),
        mib(results.peak_bytes[1]),
        table(&results.with_dropout),
        results.optimizer_ms,
    );
    for piece in &results.breakdown {
        text += &format!(
            "| {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |\n",
            piece.segment,
            piece.times,
            piece.forward_ms[0],
            piece.forward_ms[1],
            piece.backward_ms[0],
            piece.backward_ms[1],
            mib(piece.tape_bytes[0]),
            mib(piece.tape_bytes[1]),
        );
    }
    let last = |losses: &[f64]| losses.last().copied().unwrap_or(f64::NAN);
    text + &format!(
        "\nAfter {STEPS} steps the losses are {:.4} and {:.4} ([curves](modules.svg)).\n",
        last(&results.losses[0]),
        last(&results.losses[1]),
    )
}
