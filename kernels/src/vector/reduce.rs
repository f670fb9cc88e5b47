//! Sums and maxima of a row, in an order that does not depend on threads.

/// Partial results that are kept apart: four vectors of AVX2, enough to hide an addition's latency.
const WIDTH: usize = 32;

/// Folds lanes pairwise, a fixed tree.
#[inline(always)]
fn fold(mut lanes: [f32; WIDTH], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = combine(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// The sum of `term(v)` over `values`.
#[inline(always)]
pub(crate) fn sum(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; WIDTH];
    let (chunks, rest) = values.as_chunks::<WIDTH>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += term(value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane += term(value);
    }
    fold(lanes, |a, b| a + b)
}

/// The sums of two terms over pairs of `a` and `b`, of equal length.
#[inline(always)]
pub(crate) fn sum_pairs(
    a: &[f32],
    b: &[f32],
    terms: impl Fn(f32, f32) -> (f32, f32),
) -> (f32, f32) {
    let mut first = [0.0f32; WIDTH];
    let mut second = [0.0f32; WIDTH];
    let (a_chunks, a_rest) = a.as_chunks::<WIDTH>();
    let (b_chunks, b_rest) = b.as_chunks::<WIDTH>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for i in 0..WIDTH {
            let (x, y) = terms(a[i], b[i]);
            first[i] += x;
            second[i] += y;
        }
    }
    for (i, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        let (x, y) = terms(a, b);
        first[i] += x;
        second[i] += y;
    }
    (fold(first, |a, b| a + b), fold(second, |a, b| a + b))
}

/// The largest of `values`, minus infinity of none. NaN are passed over.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; WIDTH];
    let (chunks, rest) = values.as_chunks::<WIDTH>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, value);
    }
    fold(lanes, larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_maxima_cover_every_element_of_any_length() {
        for n in 0..200usize {
            let values: Vec<f32> = (0..n).map(|i| i as f32 - 50.0).collect();
            let expected: f32 = values.iter().sum();
            assert_eq!(sum(&values, |v| v), expected, "{n}");
            let (ones, squares) = sum_pairs(&values, &values, |a, b| (1.0, a * b));
            assert_eq!(ones, n as f32);
            assert_eq!(squares, values.iter().map(|v| v * v).sum::<f32>());
            let expected = values.last().copied().unwrap_or(f32::NEG_INFINITY);
            assert_eq!(max(&values), expected);
        }
    }
}
