//! A vocabulary that ranks share: each holds the vectors of a run of tokens.
//!
//! Looking a token up gives its vector on the rank that holds it, and zeros elsewhere, so that the
//! sum over ranks is the embedding. The other way round, each rank scores its own tokens, and two
//! numbers a position are enough to meet in: every rank puts the logarithm of the sum of its
//! exponentials into a column of its own, and the sum over ranks puts the columns side by side.
//! With them, the rank that holds the right token knows the loss.

use burn::nn::Embedding;
use burn::prelude::*;
use lynx_burn::Context;

/// The vectors of the tokens that are held here; zeros for others.
///
/// # Shapes
///
/// `[batch, seq]` to `[batch, seq, d_model]`
pub(crate) fn embed(embedding: &Embedding, tokens: Tensor<2, Int>, context: &Context) -> Tensor<3> {
    if context.ranks() == 1 {
        return embedding.forward(tokens);
    }
    let [held, d_model] = embedding.weight.dims();
    let [batch, seq] = tokens.dims();
    let (own, elsewhere) = own(tokens, held, context);
    let elsewhere = elsewhere
        .unsqueeze_dim::<3>(2)
        .expand([batch, seq, d_model]);
    embedding.forward(own).mask_fill(elsewhere, 0.0)
}

/// What is added to the score of a row that is no token: its exponential beside any other is zero, and
/// unlike minus infinity it leaves the normaliser of a rank that holds padding alone a number.
const NEVER: f32 = -1e9;

/// The scores, with those of the vocabulary's last `padding` rows so low that none is ever predicted.
///
/// # Shapes
///
/// Scores and result: `[batch, seq, vocabulary / ranks]`
pub(crate) fn without_padding(scores: Tensor<3>, padding: usize, context: &Context) -> Tensor<3> {
    let [_, _, held] = scores.dims();
    // Of the rows on this rank and those after it, as many as are no padding.
    let here = held * (context.ranks() - context.rank().0);
    let tokens = here.saturating_sub(padding).min(held);
    if tokens == held {
        return scores;
    }
    let device = scores.device();
    let never = Tensor::<1>::full([held - tokens], NEVER, &device);
    let row = match tokens {
        0 => never,
        _ => Tensor::cat(vec![Tensor::zeros([tokens], &device), never], 0),
    };
    scores + row.unsqueeze()
}

/// What a rank brings to the normaliser of its scores: a column of its own among zeros.
///
/// # Shapes
///
/// `[batch, seq, vocabulary / ranks]` to `[batch, seq, ranks]`
pub(crate) fn normaliser(scores: Tensor<3>, context: &Context) -> Tensor<3> {
    let [batch, seq, _] = scores.dims();
    let largest = scores.clone().detach().max_dim(2);
    let column = (scores - largest.clone()).exp().sum_dim(2).log() + largest;
    let others = Tensor::zeros([batch, seq, context.ranks()], &column.device());
    let at = context.rank().0;
    others.slice_assign([0..batch, 0..seq, at..at + 1], column)
}

/// A rank's share of the mean cross-entropy: that of the tokens it holds.
///
/// # Shapes
///
/// Scores `[batch, seq, vocabulary / ranks]`, normalisers `[batch, seq, ranks]`, targets
/// `[batch, seq]`; the result is `[1]`.
pub(crate) fn loss(
    scores: Tensor<3>,
    normalisers: Tensor<3>,
    targets: Tensor<2, Int>,
    context: &Context,
) -> Tensor<1> {
    let [batch, seq, held] = scores.dims();
    let (own, elsewhere) = own(targets, held, context);
    let right = scores.gather(2, own.unsqueeze_dim(2));
    let largest = normalisers.clone().detach().max_dim(2);
    let all = (normalisers - largest.clone()).exp().sum_dim(2).log() + largest;
    let losses = (all - right).mask_fill(elsewhere.unsqueeze_dim(2), 0.0);
    losses.sum().div_scalar((batch * seq) as f64)
}

/// Places of tokens among those that are held here, and which are not: those get place 0.
fn own(
    tokens: Tensor<2, Int>,
    held: usize,
    context: &Context,
) -> (Tensor<2, Int>, Tensor<2, Bool>) {
    let first = (context.rank().0 * held) as i64;
    let places = tokens - first;
    let elsewhere = places
        .clone()
        .lower_elem(0)
        .bool_or(places.clone().greater_equal_elem(held as i64));
    (places.mask_fill(elsewhere.clone(), 0), elsewhere)
}
