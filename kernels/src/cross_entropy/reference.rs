//! Cross-entropy in `f64`.

use super::IGNORED;

/// The mean loss over the rows that count.
#[must_use]
pub fn forward(classes: usize, logits: &[f64], targets: &[i64]) -> f64 {
    let counted: Vec<f64> = logits
        .chunks(classes)
        .zip(targets)
        .filter(|&(_, &target)| target != IGNORED)
        .map(|(row, &target)| log_sum_exp(row) - row[target as usize])
        .collect();
    counted.iter().sum::<f64>() / counted.len() as f64
}

/// The gradient of the mean loss, times `gradient`.
#[must_use]
pub fn backward(classes: usize, logits: &[f64], targets: &[i64], gradient: f64) -> Vec<f64> {
    let counted = targets.iter().filter(|&&t| t != IGNORED).count() as f64;
    logits
        .chunks(classes)
        .zip(targets)
        .flat_map(|(row, &target)| {
            let lse = log_sum_exp(row);
            row.iter().enumerate().map(move |(class, &logit)| {
                if target == IGNORED {
                    return 0.0;
                }
                let hit = if class as i64 == target { 1.0 } else { 0.0 };
                ((logit - lse).exp() - hit) * gradient / counted
            })
        })
        .collect()
}

fn log_sum_exp(row: &[f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + row.iter().map(|v| (v - largest).exp()).sum::<f64>().ln()
}
