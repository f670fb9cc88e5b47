//! The fused operations of a GPT layer on the CPU, against the same functions of Burn's operations.
//!
//! Values and gradients are compared before anything is timed; the two take turns. A gradient comes
//! in through a product with a constant, so both backward times contain that product and a sum.

use std::hint::black_box;
use std::time::{Duration, Instant};

use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::{gelu, softmax};
use lynx_benches::machine::Machine;
use lynx_benches::rounds::{quantile, spread_ms};
use lynx_burn::ids::{MicroBatchId, SegmentId};
use lynx_burn::kernels::{Cost, attention, layer_norm};
use lynx_burn::memory::{TrackingAllocator, live_bytes, peak_bytes, reset_peak};
use lynx_burn::nn::{
    CausalSelfAttentionConfig, CrossEntropyLossConfig, Dropout, DropoutConfig, Gelu,
    LayerNormConfig,
};
use lynx_burn::{Context, Mode};
use serde::Serialize;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator;

const ROUNDS: usize = 15;
const BATCH: usize = 8;
const SEQ: usize = 256;
const WIDTH: usize = 256;
const HEADS: usize = 8;
const CLASSES: usize = 256;
const DROP: f64 = 0.1;

/// A function of one tensor, differentiable.
type Function = Box<dyn Fn(Tensor<3>) -> Tensor<3>>;

/// One operation, ours and Burn's.
struct Pair {
    name: String,
    /// How often a GPT layer runs it; nothing for what is outside layers.
    in_layer: f64,
    shape: [usize; 3],
    ours: Function,
    burns: Function,
}

/// What one side of a pair costs.
#[derive(Clone, Serialize)]
struct Side {
    /// Median and quartiles, in milliseconds.
    forward_ms: [f64; 3],
    backward_ms: [f64; 3],
    /// Bytes held for backward after forward, its input not counted.
    kept_bytes: u64,
    /// The most that forward and backward needed at once.
    peak_bytes: u64,
}

#[derive(Serialize)]
struct Row {
    operation: String,
    in_layer: f64,
    ours: Side,
    burns: Side,
    /// Burn's time over ours in the same round: median and quartiles.
    forward_speedup: [f64; 3],
    backward_speedup: [f64; 3],
}

/// A kernel by itself, on slices.
#[derive(Serialize)]
struct Kernel {
    kernel: String,
    forward_ms: [f64; 3],
    recompute_ms: [f64; 3],
    /// Recompute over forward in the same round: median and quartiles.
    recompute_share: [f64; 3],
    forward_gb_per_s: f64,
    forward_gflop_per_s: f64,
}

#[derive(Serialize)]
struct Growth {
    seq: usize,
    ours_kept_bytes: u64,
    burns_kept_bytes: u64,
    ours_peak_bytes: u64,
    burns_peak_bytes: u64,
}

#[derive(Serialize)]
struct Results {
    machine: Machine,
    rounds: usize,
    copy_gb_per_s: f64,
    matmul_gflop_per_s: f64,
    operations: Vec<Row>,
    /// Burn's time for a layer's operations over ours: forward, backward and both.
    layer_speedup: [f64; 3],
    kernels: Vec<Kernel>,
    attention_memory: Vec<Growth>,
}

fn main() {
    // `cargo test --benches` asks for a list of tests; there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let operations: Vec<Row> = pairs(DROP).into_iter().map(compare).collect();
    let results = Results {
        machine: Machine::here(),
        rounds: ROUNDS,
        copy_gb_per_s: copy(),
        matmul_gflop_per_s: matmul(),
        layer_speedup: layer_speedup(&operations),
        operations,
        kernels: vec![layer_norm_kernel(), attention_kernel()],
        attention_memory: [128, 256, 512, 1024].map(growth).into(),
    };
    let text = markdown(&results);
    print!("{text}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let json = serde_json::to_string_pretty(&results).expect("plain numbers") + "\n";
    std::fs::write(format!("{folder}/kernels.json"), json).expect("a file for results");
    std::fs::write(format!("{folder}/kernels.md"), text).expect("a file for results");
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn context() -> Context {
    Context::new(Mode::Training, 1, 2, MicroBatchId(0), SegmentId(0))
}

fn dropout(probability: f64) -> Dropout {
    DropoutConfig::new(probability).init().expect("valid")
}

/// The operations of a GPT layer that are no product with a weight, and the loss.
fn pairs(drop: f64) -> Vec<Pair> {
    let device = device();
    let stream = [BATCH, SEQ, WIDTH];
    let ours = LayerNormConfig::new(WIDTH).init(&device);
    let theirs = burn::nn::LayerNormConfig::new(WIDTH).init(&device);
    let residual = Tensor::<3>::random(stream, Distribution::Default, &device);
    let (again, place) = (residual.clone(), dropout(drop));
    let rows = BATCH * SEQ;
    let targets: Vec<i32> = (0..rows as i32).map(|i| i * 31 % CLASSES as i32).collect();
    let targets = Tensor::<1, Int>::from_ints(targets.as_slice(), &device);
    let again_targets = targets.clone();
    let loss = CrossEntropyLossConfig::new().init();
    let burns_loss = burn::nn::loss::CrossEntropyLossConfig::new().init(&device);
    let mut pairs = vec![
        Pair {
            name: "layer norm".to_owned(),
            in_layer: 2.0,
            shape: stream,
            ours: Box::new(move |x| ours.forward(x)),
            burns: Box::new(move |x| theirs.forward(x)),
        },
        Pair {
            name: "gelu".to_owned(),
            in_layer: 1.0,
            shape: [BATCH, SEQ, 4 * WIDTH],
            ours: Box::new(|x| Gelu::new().forward(x)),
            burns: Box::new(gelu),
        },
        Pair {
            name: "dropout and add".to_owned(),
            in_layer: 2.0,
            shape: stream,
            ours: Box::new(move |x| place.forward_add(x, residual.clone(), &context())),
            // Burn's own dropout draws from one generator and could not be compared.
            burns: Box::new({
                let mask = mask(stream, drop);
                move |x| again.clone() + x * mask.clone()
            }),
        },
        Pair {
            name: "cross-entropy".to_owned(),
            in_layer: 0.0,
            shape: [1, rows, CLASSES],
            ours: Box::new(move |x| {
                loss.forward(x.squeeze_dim::<2>(0), targets.clone())
                    .reshape([1, 1, 1])
            }),
            burns: Box::new(move |x| {
                burns_loss
                    .forward(x.squeeze_dim::<2>(0), again_targets.clone())
                    .reshape([1, 1, 1])
            }),
        },
    ];
    pairs.push(attention(SEQ, 0.0, 1.0));
    pairs.push(attention(SEQ, drop, 0.0));
    pairs
}

/// The mask of the next place, as a tensor.
fn mask<const D: usize>(shape: [usize; D], drop: f64) -> Tensor<D> {
    dropout(drop).forward(Tensor::ones(shape, &device()), &context())
}

/// Attention, and the same with the whole matrix, as a GPT in Burn is usually written.
fn attention(seq: usize, drop: f64, in_layer: f64) -> Pair {
    let ours = CausalSelfAttentionConfig::new(HEADS).with_dropout(drop);
    let ours = ours.init().expect("valid");
    let mask = (drop > 0.0).then(|| mask([BATCH, HEADS, seq, seq], drop));
    Pair {
        name: format!("attention, dropout {drop}"),
        in_layer,
        shape: [BATCH, seq, 3 * WIDTH],
        ours: Box::new(move |x| ours.forward(x, &context())),
        burns: Box::new(move |qkv| {
            let d_head = WIDTH / HEADS;
            let [query, key, value] = [0, 1, 2].map(|part| {
                qkv.clone()
                    .slice_dim(2, part * WIDTH..(part + 1) * WIDTH)
                    .reshape([BATCH, seq, HEADS, d_head])
                    .swap_dims(1, 2)
            });
            let query = query.mul_scalar(1.0 / (d_head as f64).sqrt());
            let scores = query.matmul(key.swap_dims(2, 3));
            let future = Tensor::<2, Bool>::tril_mask([seq, seq], 0, &scores.device());
            let future = future.unsqueeze::<4>().expand([BATCH, HEADS, seq, seq]);
            let mut weights = softmax(scores.mask_fill(future, f32::NEG_INFINITY), 3);
            if let Some(mask) = &mask {
                weights = weights * mask.clone();
            }
            weights
                .matmul(value)
                .swap_dims(1, 2)
                .reshape([BATCH, seq, WIDTH])
        }),
    }
}

/// One forward and backward.
struct Run {
    forward: Duration,
    backward: Duration,
    kept: u64,
    peak: u64,
    values: Vec<f32>,
    gradient: Vec<f32>,
}

fn run(function: &Function, input: &Tensor<3>, factor: &Tensor<3>) -> Run {
    let input = input.clone().detach().require_grad();
    let before = live_bytes();
    reset_peak();
    let begin = Instant::now();
    let output = function(input.clone());
    let forward = begin.elapsed();
    let values = output.to_data();
    let kept = live_bytes().saturating_sub(before + output_bytes(&values));
    let end = (output * factor.clone()).sum();
    let begin = Instant::now();
    let gradients = end.backward();
    let backward = begin.elapsed();
    let peak = peak_bytes().saturating_sub(before);
    let gradient = input.grad(&gradients).expect("a gradient").into_data();
    Run {
        forward,
        backward,
        kept,
        peak,
        values: values.iter().collect(),
        gradient: gradient.iter().collect(),
    }
}

/// The copy that looking at the output made.
fn output_bytes(values: &TensorData) -> u64 {
    values.as_bytes().len() as u64
}

fn compare(pair: Pair) -> Row {
    let device = device();
    let input = Tensor::<3>::random(pair.shape, Distribution::Normal(0.0, 1.0), &device);
    let out = (pair.ours)(input.clone().detach()).dims();
    let factor = Tensor::<3>::random(out, Distribution::Normal(0.0, 1.0), &device);
    let [ours, burns] = [&pair.ours, &pair.burns].map(|f| run(f, &input, &factor));
    same(&pair.name, &ours.values, &burns.values);
    same(&pair.name, &ours.gradient, &burns.gradient);
    let mut times = [const { Vec::new() }; 2];
    for round in 0..ROUNDS {
        for offset in 0..2 {
            let side = (round + offset) % 2;
            let function = [&pair.ours, &pair.burns][side];
            times[side].push(run(function, &input, &factor));
        }
    }
    let ratio = |of: fn(&Run) -> Duration| {
        let ratios: Vec<f64> = times[0]
            .iter()
            .zip(&times[1])
            .map(|(ours, burns)| of(burns).as_secs_f64() / of(ours).as_secs_f64())
            .collect();
        [0.5, 0.25, 0.75].map(|q| quantile(&ratios, q))
    };
    let side = |first: &Run, runs: &[Run]| {
        let of = |part: fn(&Run) -> Duration| spread_ms(&runs.iter().map(part).collect::<Vec<_>>());
        Side {
            forward_ms: of(|run| run.forward),
            backward_ms: of(|run| run.backward),
            kept_bytes: first.kept,
            peak_bytes: first.peak,
        }
    };
    Row {
        forward_speedup: ratio(|run| run.forward),
        backward_speedup: ratio(|run| run.backward),
        ours: side(&ours, &times[0]),
        burns: side(&burns, &times[1]),
        operation: pair.name,
        in_layer: pair.in_layer,
    }
}

fn same(name: &str, found: &[f32], expected: &[f32]) {
    let scale = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() <= 2e-5 * scale, "{name}: {f} for {e}");
    }
}

fn layer_speedup(rows: &[Row]) -> [f64; 3] {
    let sum = |of: fn(&Row) -> f64| rows.iter().map(|row| row.in_layer * of(row)).sum::<f64>();
    let ours = [
        sum(|row| row.ours.forward_ms[0]),
        sum(|row| row.ours.backward_ms[0]),
    ];
    let burns = [
        sum(|row| row.burns.forward_ms[0]),
        sum(|row| row.burns.backward_ms[0]),
    ];
    [
        burns[0] / ours[0],
        burns[1] / ours[1],
        (burns[0] + burns[1]) / (ours[0] + ours[1]),
    ]
}

fn growth(seq: usize) -> Growth {
    let pair = attention(seq, 0.0, 0.0);
    let input = Tensor::<3>::random(pair.shape, Distribution::Normal(0.0, 1.0), &device());
    let factor = Tensor::ones([BATCH, seq, WIDTH], &device());
    let [ours, burns] = [&pair.ours, &pair.burns].map(|f| run(f, &input, &factor));
    Growth {
        seq,
        ours_kept_bytes: ours.kept,
        burns_kept_bytes: burns.kept,
        ours_peak_bytes: ours.peak,
        burns_peak_bytes: burns.peak,
    }
}

/// Forward and recompute of a kernel in turns.
fn kernel(
    name: &str,
    cost: Cost,
    mut forward: impl FnMut(),
    mut recompute: impl FnMut(),
) -> Kernel {
    let mut times = [const { Vec::new() }; 2];
    let time = |body: &mut dyn FnMut()| {
        let begin = Instant::now();
        body();
        begin.elapsed()
    };
    forward();
    recompute();
    for _ in 0..4 * ROUNDS {
        times[0].push(time(&mut forward));
        times[1].push(time(&mut recompute));
    }
    let shares: Vec<f64> = times[0]
        .iter()
        .zip(&times[1])
        .map(|(forward, recompute)| recompute.as_secs_f64() / forward.as_secs_f64())
        .collect();
    let forward_ms = spread_ms(&times[0]);
    Kernel {
        kernel: name.to_owned(),
        forward_ms,
        recompute_ms: spread_ms(&times[1]),
        recompute_share: [0.5, 0.25, 0.75].map(|q| quantile(&shares, q)),
        forward_gb_per_s: cost.bytes() as f64 / forward_ms[0] / 1e6,
        forward_gflop_per_s: cost.flops as f64 / forward_ms[0] / 1e6,
    }
}

fn values(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| (i * 31 % 1009) as f32 / 500.0 - 1.0)
        .collect()
}

fn layer_norm_kernel() -> Kernel {
    let shape = layer_norm::LayerNorm::new(BATCH * SEQ, WIDTH, 1e-5).expect("valid");
    let (x, w) = (values(shape.elements()), values(WIDTH));
    let (mut y, mut again) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let (mut mean, mut rstd) = (vec![0.0; shape.rows()], vec![0.0; shape.rows()]);
    layer_norm::forward(shape, &x, &w, Some(&w), &mut y, &mut mean, &mut rstd).expect("fits");
    let (kept_mean, kept_rstd) = (mean.clone(), rstd.clone());
    kernel(
        "layer norm",
        shape.forward_cost(),
        || {
            let beta = Some(&w[..]);
            layer_norm::forward(shape, &x, &w, beta, &mut y, &mut mean, &mut rstd).expect("fits");
            black_box(&y);
        },
        || {
            let (mean, rstd) = (&kept_mean, &kept_rstd);
            layer_norm::recompute(shape, &x, &w, Some(&w), mean, rstd, &mut again).expect("fits");
            black_box(&again);
        },
    )
}

fn attention_kernel() -> Kernel {
    let shape = attention::Attention::new(BATCH, SEQ, HEADS, WIDTH / HEADS).expect("valid");
    let qkv = values(3 * shape.elements());
    let (mut out, mut again) = (vec![0.0; shape.elements()], vec![0.0; shape.elements()]);
    let mut lse = vec![0.0; shape.queries()];
    attention::forward(shape, &qkv, None, &mut out, &mut lse).expect("fits");
    let kept = lse.clone();
    kernel(
        "attention",
        shape.forward_cost(),
        || {
            attention::forward(shape, &qkv, None, &mut out, &mut lse).expect("fits");
            black_box(&out);
        },
        || {
            attention::recompute(shape, &qkv, None, &kept, &mut again).expect("fits");
            black_box(&again);
        },
    )
}

/// Bytes read and written a second by a copy of 8 MiB, in rayon's threads, as the kernels run.
fn copy() -> f64 {
    use rayon::prelude::*;
    let source = values(2 << 20);
    let mut target = vec![0.0f32; source.len()];
    let times: Vec<f64> = (0..4 * ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            target
                .par_chunks_mut(1 << 14)
                .zip(source.par_chunks(1 << 14))
                .for_each(|(target, source)| target.copy_from_slice(source));
            black_box(&target);
            begin.elapsed().as_secs_f64()
        })
        .collect();
    8.0 * source.len() as f64 / quantile(&times, 0.5) / 1e9
}

/// Burn's product of two matrices of 1024 x 1024.
fn matmul() -> f64 {
    let device = Device::flex();
    let matrix = || Tensor::<2>::random([1024, 1024], Distribution::Default, &device);
    let (a, b) = (matrix(), matrix());
    let times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            black_box(a.clone().matmul(b.clone()));
            begin.elapsed().as_secs_f64()
        })
        .collect();
    2.0 * 1024f64.powi(3) / quantile(&times, 0.5) / 1e9
}

fn markdown(results: &Results) -> String {
    let mib = |bytes: u64| format!("{:.2}", bytes as f64 / (1 << 20) as f64);
    let three = |[median, low, high]: [f64; 3]| format!("{median:.2} ({low:.2}-{high:.2})");
    let mut text = format!(
        "# Kernels\n\nMeasured on: {}. Batch {BATCH}, {SEQ} positions, width {WIDTH}, {HEADS} heads, \
         {CLASSES} classes, `f32`, flex; {} rounds in which ours and Burn's take turns, after one \
         in which values and gradients were compared. Medians and quartiles; ratios within a \
         round. The machine is shared with other builds, so trust the ratios. Beside it: a copy \
         moves {:.1} GB/s, Burn multiplies 1024 x 1024 at {:.0} GFLOP/s.\n\n\
         Dropout of Burn's side multiplies by a mask made before; ours makes it in the pass.\n\n\
         | operation | forward, ours | Burn's | Burn's / ours | backward, ours | Burn's | Burn's / ours | kept MiB, ours | Burn's | peak MiB, ours | Burn's |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        results.machine.line(),
        results.rounds,
        results.copy_gb_per_s,
        results.matmul_gflop_per_s,
    );
    for row in &results.operations {
        text += &format!(
            "| {} | {:.2} ms | {:.2} ms | {} | {:.2} ms | {:.2} ms | {} | {} | {} | {} | {} |\n",
            row.operation,
            row.ours.forward_ms[0],
            row.burns.forward_ms[0],
            three(row.forward_speedup),
            row.ours.backward_ms[0],
            row.burns.backward_ms[0],
            three(row.backward_speedup),
            mib(row.ours.kept_bytes),
            mib(row.burns.kept_bytes),
            mib(row.ours.peak_bytes),
            mib(row.burns.peak_bytes),
        );
    }
    let [forward, backward, both] = results.layer_speedup;
    text += &format!(
        "\nA GPT layer's sum (two norms, GELU, two dropouts with residual, attention without \
         dropout), Burn's over ours: forward {forward:.2}, backward {backward:.2}, both \
         {both:.2}.\n\n## Recompute\n\nFrom what forward kept, the same bits.\n\n\
         | kernel | forward | recompute | recompute / forward | forward GB/s | forward GFLOP/s |\n\
         | --- | --- | --- | --- | --- | --- |\n"
    );
    for kernel in &results.kernels {
        text += &format!(
            "| {} | {:.3} ms | {:.3} ms | {} | {:.1} | {:.1} |\n",
            kernel.kernel,
            kernel.forward_ms[0],
            kernel.recompute_ms[0],
            three(kernel.recompute_share),
            kernel.forward_gb_per_s,
            kernel.forward_gflop_per_s,
        );
    }
    text += "\n## Memory of attention\n\n| positions | kept MiB, ours | Burn's | peak MiB, ours | Burn's |\n| --- | --- | --- | --- | --- |\n";
    for row in &results.attention_memory {
        text += &format!(
            "| {} | {} | {} | {} | {} |\n",
            row.seq,
            mib(row.ours_kept_bytes),
            mib(row.burns_kept_bytes),
            mib(row.ours_peak_bytes),
            mib(row.burns_peak_bytes),
        );
    }
    text
}
