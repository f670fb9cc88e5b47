//! Causal attention.

use lynx_kernels::{
    cube::attention::{
        AttentionBlueprint, AttentionOptions, AttentionProblem, attention, attention_backward,
    },
    random::{DropoutMask, KeepProbability, StreamKey, fill_dropout_mask},
};
use proptest::prelude::*;

use crate::harness::{Data, F32, bytes, client, dot, download, dtypes, finite_differences, upload};
use crate::tolerance::{assert_close, largest};

pub(crate) const KEY: StreamKey = StreamKey {
    seed: 21,
    step: 1,
    micro_batch: 0,
    segment: 4,
    site: 2,
};

/// Shape and mask of one call; operands are `[batch, heads, seq, head_dim]`.
struct Case {
    heads: usize,
    seq: usize,
    head_dim: usize,
    scale: f64,
    /// `[heads of all batches, seq, seq]`.
    mask: Vec<f64>,
}

impl Case {
    fn new(dimensions: [usize; 4], keep: Option<KeepProbability>) -> Self {
        let [batch, heads, seq, head_dim] = dimensions;
        let heads = batch * heads;
        let mut mask = vec![1.0f32; heads * seq * seq];
        if let Some(keep) = keep {
            fill_dropout_mask(KEY, keep, &mut mask);
        }
        Self {
            heads,
            seq,
            head_dim,
            scale: f64::from((head_dim as f32).sqrt().recip()),
            mask: mask.into_iter().map(f64::from).collect(),
        }
    }

    fn row<'a>(&self, matrix: &'a [f64], head: usize, position: usize) -> &'a [f64] {
        let start = (head * self.seq + position) * self.head_dim;
        &matrix[start..start + self.head_dim]
    }

    fn dropped(&self, head: usize, query: usize, key: usize) -> f64 {
        self.mask[(head * self.seq + query) * self.seq + key]
    }

    /// Scores of the keys up to the query's position, and their log-sum-exp.
    fn scores(&self, q: &[f64], k: &[f64], head: usize, query: usize) -> (Vec<f64>, f64) {
        let own = self.row(q, head, query);
        let scores: Vec<f64> = (0..=query)
            .map(|key| self.scale * dot(own, self.row(k, head, key)))
            .collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - top).exp()).sum();
        (scores, top + sum.ln())
    }

    /// Output and log-sum-exps.
    fn forward(&self, q: &[f64], k: &[f64], v: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut output = Vec::new();
        let mut sums = Vec::new();
        for head in 0..self.heads {
            for query in 0..self.seq {
                let (scores, sum) = self.scores(q, k, head, query);
                sums.push(sum);
                output.extend((0..self.head_dim).map(|d| {
                    let weighted = scores.iter().enumerate().map(|(key, score)| {
                        let probability = (score - sum).exp() * self.dropped(head, query, key);
                        probability * self.row(v, head, key)[d]
                    });
                    weighted.sum::<f64>()
                }));
            }
        }
        (output, sums)
    }

    /// Gradients of queries, keys and values, by the chain rule through a stored softmax.
    fn backward(&self, g: &[f64], q: &[f64], k: &[f64], v: &[f64]) -> [Vec<f64>; 3] {
        let mut of = [0; 3].map(|_| vec![0.0; q.len()]);
        for head in 0..self.heads {
            for query in 0..self.seq {
                let (scores, sum) = self.scores(q, k, head, query);
                let p: Vec<f64> = scores.iter().map(|score| (score - sum).exp()).collect();
                let incoming = self.row(g, head, query);
                let through: Vec<f64> = (0..=query)
                    .map(|key| {
                        self.dropped(head, query, key) * dot(incoming, self.row(v, head, key))
                    })
                    .collect();
                let mean = dot(&p, &through);
                let at = |position: usize| (head * self.seq + position) * self.head_dim;
                for key in 0..=query {
                    let slope = self.scale * p[key] * (through[key] - mean);
                    for d in 0..self.head_dim {
                        of[0][at(query) + d] += slope * k[at(key) + d];
                        of[1][at(key) + d] += slope * q[at(query) + d];
                        of[2][at(key) + d] += p[key] * self.dropped(head, query, key) * incoming[d];
                    }
                }
            }
        }
        of
    }
}

/// `[batch, heads, seq, head_dim]` numbers from the `[batch, seq, heads, head_dim]` of a result.
pub(crate) fn by_head(numbers: &[f64], [batch, heads, seq, head_dim]: [usize; 4]) -> Vec<f64> {
    let mut sorted = Vec::with_capacity(numbers.len());
    for b in 0..batch {
        for h in 0..heads {
            for s in 0..seq {
                let start = ((b * seq + s) * heads + h) * head_dim;
                sorted.extend_from_slice(&numbers[start..start + head_dim]);
            }
        }
    }
    sorted
}

#[test]
fn the_references_gradients_are_finite_differences() {
    let mut data = Data(5);
    let keep = KeepProbability::from_drop(0.3).expect("a probability");
    let dimensions = [1, 2, 4, 3];
    let case = Case::new(dimensions, Some(keep));
    let [q, k, v, g] = [0; 4].map(|_| data.floats(F32, 24, 0.0, 1.0));
    let loss = |q: &[f64], k: &[f64], v: &[f64]| dot(&case.forward(q, k, v).0, &g);
    let numeric = [
        finite_differences(&q, |q| loss(q, &k, &v)),
        finite_differences(&k, |k| loss(&q, k, &v)),
        finite_differences(&v, |v| loss(&q, &k, v)),
    ];
    for (analytic, numeric) in case.backward(&g, &q, &k, &v).iter().zip(&numeric) {
        for (a, n) in analytic.iter().zip(numeric) {
            assert!((a - n).abs() < 1e-8, "{a} against {n}");
        }
    }
}

#[test]
fn what_a_forward_keeps_grows_with_the_sequence_and_not_with_its_square() {
    let problem = |seq| AttentionProblem {
        batch: 2,
        heads: 3,
        seq,
        head_dim: 64,
        element: 4,
    };
    assert_eq!(problem(1000).saved_bytes(), 2 * 3 * 1000 * (64 * 4 + 4));
    assert_eq!(problem(2000).saved_bytes(), 2 * problem(1000).saved_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn forward_recompute_and_backward_are_the_references(
        batch in 1usize..3,
        heads in 1usize..4,
        seq in prop_oneof![1usize..80, Just(32), Just(64)],
        head_dim in prop_oneof![Just(1usize), Just(5), Just(16), Just(33), Just(64)],
        drop in prop_oneof![Just(None), Just(Some(0.2))],
        spread in prop_oneof![Just(1.0), Just(8.0)],
        blueprint in prop_oneof![
            Just(None),
            Just(Some(AttentionBlueprint::TINY)),
            Just(Some(AttentionBlueprint::SMALL)),
            Just(Some(AttentionBlueprint { tile: 8, micro: 4 })),
        ],
        seed: u64,
    ) {
        let Some(client) = client() else { return Ok(()) };
        let dimensions = [batch, heads, seq, head_dim];
        let keep = drop.map(|drop| KeepProbability::from_drop(drop).expect("a probability"));
        let case = Case::new(dimensions, keep);
        let options = AttentionOptions {
            dropout: keep.map(|keep| DropoutMask::new(KEY, keep)),
            blueprint,
            ..AttentionOptions::default()
        };
        for dtype in dtypes(&client) {
            let mut data = Data(seed);
            let n = batch * heads * seq * head_dim;
            let numbers = [spread, spread, 1.0, 1.0].map(|s| data.floats(dtype, n, 0.0, s));
            let [q, k, v, g] = numbers.each_ref().map(|x| upload(&client, dtype, &dimensions, x));
            let run = || attention(&client, &q, &k, &v, options).expect("valid operands");
            let made = run();
            let again = run();
            prop_assert_eq!(bytes(&client, &again.output), bytes(&client, &made.output));

            let [xq, xk, xv, xg] = &numbers;
            let (output, sums) = case.forward(xq, xk, xv);
            // A score is a sum of products; its error shifts an exponent.
            let score = case.scale * head_dim as f64 * largest(xq) * largest(xk);
            let scale = (1.0 + score) * largest(xv) * largest(&case.mask);
            let found = by_head(&download(&client, &made.output), dimensions);
            assert_close("output", dtype, 8.0, scale, &found, &output);
            let found = download(&client, &made.log_sum_exp);
            assert_close("log-sum-exp", F32, 16.0, 1.0 + score, &found, &sums);

            let gradients =
                attention_backward(&client, &g, &q, &k, &v, &made.output, &made.log_sum_exp, options)
                    .expect("valid operands");
            // `delta` is made from an output that was rounded to its type.
            let stored = if dtype == F32 { 1.0 } else { 8192.0 };
            let through = head_dim as f64 * largest(xg) * largest(xv) * largest(&case.mask);
            let scale = case.scale * through * (1.0 + score) * stored / 8.0;
            let expected = case.backward(xg, xq, xk, xv);
            for ((what, found), (expected, other)) in [
                ("query", &gradients.query), ("key", &gradients.key), ("value", &gradients.value),
            ].into_iter().zip(expected.iter().zip([largest(xk), largest(xq), 1.0])) {
                let found = by_head(&download(&client, found), dimensions);
                let scale = scale * other.max(1.0);
                assert_close(what, dtype, 16.0, scale, &found, expected);
            }
        }
    }
}
