//! The results as Markdown.

use crate::{BATCH, CLASSES, HEADS, Results, SEQ, WIDTH};

pub(crate) fn markdown(results: &Results) -> String {
    let mib = |bytes: u64| format!("{:.2}", bytes as f64 / (1 << 20) as f64);
    let three = |[median, low, high]: [f64; 3]| format!("{median:.2} ({low:.2}-{high:.2})");
    let mut text = format!(
        "# Kernels\n\nMeasured on: {}. Batch {BATCH}, {SEQ} positions, width {WIDTH}, {HEADS} heads, \
         {CLASSES} classes, `f32`, flex; {} rounds in which ours and Burn's take turns, after one \
         in which values and gradients were compared. Medians and quartiles; ratios within a \
         round. The machine is shared with other builds, so trust the ratios. Beside it: a copy \
         moves {:.1} GB/s, Burn multiplies 1024 x 1024 at {:.0} GFLOP/s.\n\n\
         Dropout of Burn's side multiplies by a mask made before; ours makes it in the pass. Kept \
         counts the output and not the input; peak, on both sides, also the copy of the output that \
         was compared and the product that brings the gradient in.\n\n\
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
