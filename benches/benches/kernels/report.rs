//! The results as Markdown.

use lynx_benches::twins::{BATCH, CLASSES, HEADS, ROWS, SEQ, WIDTH};

use crate::Results;
use crate::compare::Row;

const HEAD: &str = "forward, ours | Burn's | Burn's / ours | backward, ours | Burn's | Burn's / ours | kept MiB, ours | Burn's | peak MiB, ours | Burn's |";

pub(crate) fn markdown(results: &Results) -> String {
    [
        introduction(results),
        operations(results),
        products(results),
        recompute(results),
        memory(results),
    ]
    .concat()
}

fn introduction(results: &Results) -> String {
    format!(
        "# Kernels\n\nMeasured on: {}. Batch {BATCH}, {SEQ} positions, width {WIDTH}, {HEADS} heads, \
         {CLASSES} classes, `f32`, flex; an allocator that keeps pages, for both; {} rounds in \
         which ours and Burn's take turns, after one in which values and gradients were compared. \
         Medians and quartiles; ratios within a round. The machine is shared with other builds, so \
         trust the ratios. Beside it: a copy of 8 MiB moves {:.1} GB/s, Burn multiplies 1024 x 1024 at {:.0} GFLOP/s.\n\n\
         Ours makes its dropout masks in the pass. Burn's side multiplies by a mask made before, so \
         that values can be compared; in the row in which Burn draws, it is Burn's own dropout, \
         which draws a mask each time, as in a model: its values are random, so that row is timed \
         and not compared. Kept counts the output and not the input; peak, on both sides, also the \
         copy of the output that was compared, the product that brings the gradient in, and \
         gradients.\n\n",
        results.machine.line(),
        results.rounds,
        results.copy_gb_per_s,
        results.matmul_gflop_per_s,
    )
}

fn operations(results: &Results) -> String {
    let mut text = format!("| operation | {HEAD}\n|{}\n", " --- |".repeat(11));
    for row in &results.operations {
        text += &format!("{}\n", cells(row));
    }
    let [forward, backward, both] = results.layer_speedup;
    text + &format!(
        "\nA GPT layer's sum (two norms, GELU, two dropouts with residual by the mask made before, \
         attention without dropout), Burn's over ours: forward {forward:.2}, backward \
         {backward:.2}, both {both:.2}.\n"
    )
}

fn products(results: &Results) -> String {
    let matmul = results.matmul_gflop_per_s;
    let mut text = format!(
        "\n## Products with a weight\n\n{ROWS} rows, inputs -> outputs, with a bias; the transposed \
         one is a head's, which reads an embedding's weight across and has none. Backward makes the \
         gradients of input, weight and bias, and all were compared. GFLOP/s of ours, and in brackets \
         as a share of what Burn's product of 1024 x 1024 reaches ({matmul:.0}), which writes into a \
         new buffer too; backward's time includes the product that brings the gradient in.\n\n\
         | product | {HEAD} forward GFLOP/s, ours | backward |\n|{}\n",
        " --- |".repeat(13)
    );
    for product in &results.products {
        let [forward, backward] = [product.forward_gflop_per_s, product.backward_gflop_per_s]
            .map(|rate| format!("{rate:.0} ({:.2})", rate / matmul));
        text += &format!("{} {forward} | {backward} |\n", cells(&product.row));
    }
    text
}

/// The cells under [`HEAD`] and the one before them.
fn cells(row: &Row) -> String {
    format!(
        "| {} | {:.2} ms | {:.2} ms | {} | {:.2} ms | {:.2} ms | {} | {} | {} | {} | {} |",
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
    )
}

fn recompute(results: &Results) -> String {
    let mut text = "\n## Recompute\n\nFrom what forward kept, the same bits.\n\n\
         | kernel | forward | recompute | recompute / forward | forward GB/s | forward GFLOP/s |\n\
         | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
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
    text
}

fn memory(results: &Results) -> String {
    let mut text = "\n## Memory of attention\n\n\
         | positions | kept MiB, ours | Burn's | peak MiB, ours | Burn's |\n\
         | --- | --- | --- | --- | --- |\n"
        .to_owned();
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

fn mib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / (1 << 20) as f64)
}

fn three([median, low, high]: [f64; 3]) -> String {
    format!("{median:.2} ({low:.2}-{high:.2})")
}
