//! The CPU kernels on Flex's tensors.
//!
//! They read and write `f32`; other types take the composed default. A tensor that is not
//! contiguous is copied first, as Burn's own fused operations do.

use burn::backend::ops::ModuleOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::Shape;
use lynx_kernels::gelu::Form;
use lynx_kernels::{attention, cross_entropy, dropout_add, gelu, layer_norm};

use super::shapes::{one_a_row, rows};
use super::{Drop, Kernels, Optional, fused_ops};

mod products;
mod tensors;

use tensors::{Input, attention_sizes, buffer, classes_of, fitting, known, tensor};

fused_ops!(Flex);

impl Kernels for Flex {
    fn layer_norm_forward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Optional<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        if !known(&x) {
            return super::layer_norm::forward::<Self>(x, gamma, beta.option(), epsilon);
        }
        let shape = x.shape();
        let (rows, width) = rows::<Self>(&x);
        let norm = fitting(layer_norm::LayerNorm::new(rows, width, epsilon as f32));
        let (x, gamma, beta) = (Input::new(x), Input::new(gamma), Input::optional(beta));
        let (mut y, mut mean, mut rstd) = (buffer(rows * width), buffer(rows), buffer(rows));
        fitting(layer_norm::forward(
            norm,
            x.read(),
            gamma.read(),
            beta.as_ref().map(Input::read),
            &mut y,
            &mut mean,
            &mut rstd,
        ));
        let statistics = one_a_row(&shape);
        (
            tensor(y, shape),
            tensor(mean, statistics.clone()),
            tensor(rstd, statistics),
        )
    }

    fn layer_norm_recompute(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Optional<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !known(&x) {
            return super::layer_norm::recompute::<Self>(x, gamma, beta.option(), mean, rstd);
        }
        let shape = x.shape();
        let (rows, width) = rows::<Self>(&x);
        let norm = fitting(layer_norm::LayerNorm::new(rows, width, 0.0));
        let (x, gamma, beta) = (Input::new(x), Input::new(gamma), Input::optional(beta));
        let mut y = buffer(rows * width);
        fitting(layer_norm::recompute(
            norm,
            x.read(),
            gamma.read(),
            beta.as_ref().map(Input::read),
            Input::new(mean).read(),
            Input::new(rstd).read(),
            &mut y,
        ));
        tensor(y, shape)
    }

    fn layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        if !known(&x) {
            return super::layer_norm::backward::<Self>(x, gamma, mean, rstd, gradient);
        }
        let shape = x.shape();
        let (rows, width) = rows::<Self>(&x);
        let norm = fitting(layer_norm::LayerNorm::new(rows, width, 0.0));
        let (mut dx, mut dgamma, mut dbeta) = (buffer(rows * width), buffer(width), buffer(width));
        fitting(layer_norm::backward(
            norm,
            Input::new(x).read(),
            Input::new(gamma).read(),
            Input::new(mean).read(),
            Input::new(rstd).read(),
            Input::new(gradient).read(),
            &mut dx,
            &mut dgamma,
            &mut dbeta,
        ));
        let vector = Shape::from(vec![width]);
        (
            tensor(dx, shape),
            tensor(dgamma, vector.clone()),
            tensor(dbeta, vector),
        )
    }

    fn bias_gelu_forward(
        x: FloatTensor<Self>,
        bias: Optional<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        if !known(&x) {
            return super::gelu::forward::<Self>(x, bias.option(), form);
        }
        let shape = x.shape();
        let (rows, width) = rows::<Self>(&x);
        let sizes = fitting(gelu::Gelu::new(form, rows, width));
        let (x, bias) = (Input::new(x), Input::optional(bias));
        let mut y = buffer(rows * width);
        let bias = bias.as_ref().map(Input::read);
        fitting(gelu::forward(sizes, x.read(), bias, &mut y));
        tensor(y, shape)
    }

    fn bias_gelu_backward(
        x: FloatTensor<Self>,
        bias: Optional<Self>,
        form: Form,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, Optional<Self>) {
        if !known(&x) {
            let (dx, dbias) = super::gelu::backward::<Self>(x, bias.option(), form, gradient);
            return (dx, Optional::of(dbias));
        }
        let shape = x.shape();
        let (rows, width) = rows::<Self>(&x);
        let sizes = fitting(gelu::Gelu::new(form, rows, width));
        let (x, bias) = (Input::new(x), Input::optional(bias));
        let mut dx = buffer(rows * width);
        let mut dbias = bias.as_ref().map(|_| buffer(width));
        fitting(gelu::backward(
            sizes,
            x.read(),
            bias.as_ref().map(Input::read),
            Input::new(gradient).read(),
            &mut dx,
            dbias.as_deref_mut(),
        ));
        let dbias = dbias.map(|dbias| tensor(dbias, Shape::from(vec![width])));
        (tensor(dx, shape), Optional::of(dbias))
    }

    fn dropout_add_forward(
        x: FloatTensor<Self>,
        bias: Optional<Self>,
        residual: Optional<Self>,
        drop: Drop,
    ) -> FloatTensor<Self> {
        if !known(&x) {
            return super::dropout_add::forward::<Self>(x, bias.option(), residual.option(), drop);
        }
        let shape = x.shape();
        let (rows, width) = rows::<Self>(&x);
        let sizes = fitting(dropout_add::DropoutAdd::new(rows, width));
        let (bias, residual) = (Input::optional(bias), Input::optional(residual));
        let mut y = buffer(rows * width);
        fitting(dropout_add::forward(
            sizes,
            Input::new(x).read(),
            bias.as_ref().map(Input::read),
            residual.as_ref().map(Input::read),
            drop.mask(),
            &mut y,
        ));
        tensor(y, shape)
    }

    fn dropout_add_backward(
        gradient: FloatTensor<Self>,
        with_bias: bool,
        drop: Drop,
    ) -> (FloatTensor<Self>, Optional<Self>) {
        if !known(&gradient) {
            let (dx, dbias) = super::dropout_add::backward::<Self>(gradient, with_bias, drop);
            return (dx, Optional::of(dbias));
        }
        let shape = gradient.shape();
        let (rows, width) = rows::<Self>(&gradient);
        let sizes = fitting(dropout_add::DropoutAdd::new(rows, width));
        let mut dx = buffer(rows * width);
        let mut dbias = with_bias.then(|| buffer(width));
        let gradient = Input::new(gradient);
        let (read, write) = (gradient.read(), dbias.as_deref_mut());
        fitting(dropout_add::backward(
            sizes,
            read,
            drop.mask(),
            &mut dx,
            write,
        ));
        let dbias = dbias.map(|dbias| tensor(dbias, Shape::from(vec![width])));
        (tensor(dx, shape), Optional::of(dbias))
    }

    fn attention_forward(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        if !known(&qkv) {
            return super::attention::forward::<Self>(qkv, heads, drop);
        }
        let sizes = attention_sizes(&qkv, heads);
        let (mut out, mut lse) = (buffer(sizes.elements()), buffer(sizes.queries()));
        let qkv = Input::new(qkv);
        fitting(attention::forward(
            sizes,
            qkv.read(),
            drop.map(Drop::mask),
            &mut out,
            &mut lse,
        ));
        let (batch, seq) = (sizes.batch(), sizes.seq());
        (
            tensor(out, Shape::from(vec![batch, seq, heads * sizes.d_head()])),
            tensor(lse, Shape::from(vec![batch, heads, seq])),
        )
    }

    fn attention_recompute(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
        lse: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !known(&qkv) {
            return super::attention::forward::<Self>(qkv, heads, drop).0;
        }
        let sizes = attention_sizes(&qkv, heads);
        let mut out = buffer(sizes.elements());
        let (qkv, lse) = (Input::new(qkv), Input::new(lse));
        let mask = drop.map(Drop::mask);
        fitting(attention::recompute(
            sizes,
            qkv.read(),
            mask,
            lse.read(),
            &mut out,
        ));
        let (batch, seq) = (sizes.batch(), sizes.seq());
        tensor(out, Shape::from(vec![batch, seq, heads * sizes.d_head()]))
    }

    fn attention_backward(
        qkv: FloatTensor<Self>,
        heads: usize,
        drop: Option<Drop>,
        out: FloatTensor<Self>,
        lse: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !known(&qkv) {
            return super::attention::backward::<Self>(qkv, heads, drop, lse, gradient);
        }
        let shape = qkv.shape();
        let sizes = attention_sizes(&qkv, heads);
        let mut dqkv = buffer(3 * sizes.elements());
        fitting(attention::backward(
            sizes,
            Input::new(qkv).read(),
            drop.map(Drop::mask),
            Input::new(out).read(),
            Input::new(lse).read(),
            Input::new(gradient).read(),
            &mut dqkv,
        ));
        tensor(dqkv, shape)
    }

    fn cross_entropy_forward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        if !known(&logits) {
            return super::cross_entropy::forward::<Self>(logits, targets);
        }
        let (rows, classes) = rows::<Self>(&logits);
        let sizes = fitting(cross_entropy::CrossEntropy::new(rows, classes));
        let (mut losses, mut lse) = (buffer(rows), buffer(rows));
        let loss = fitting(cross_entropy::forward(
            sizes,
            Input::new(logits).read(),
            &classes_of(targets),
            &mut losses,
            &mut lse,
        ));
        (
            tensor(vec![loss], Shape::from(vec![1])),
            tensor(lse, Shape::from(vec![rows, 1])),
        )
    }

    fn cross_entropy_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        lse: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !known(&logits) {
            return super::cross_entropy::backward::<Self>(logits, targets, lse, gradient);
        }
        let shape = logits.shape();
        let (rows, classes) = rows::<Self>(&logits);
        let sizes = fitting(cross_entropy::CrossEntropy::new(rows, classes));
        let mut dlogits = buffer(rows * classes);
        fitting(cross_entropy::backward(
            sizes,
            Input::new(logits).read(),
            &classes_of(targets),
            Input::new(lse).read(),
            Input::new(gradient).read()[0],
            &mut dlogits,
        ));
        tensor(dlogits, shape)
    }

    fn linear_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Optional<Self>,
    ) -> FloatTensor<Self> {
        match known(&x) {
            true => products::linear(x, weight, bias),
            false => Self::linear(x, weight, bias.option()),
        }
    }

    fn linear_input_gradient(
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        match known(&gradient) {
            true => products::input_gradient(weight, gradient),
            false => Self::linear_x_backward(weight, gradient),
        }
    }

    fn linear_weight_gradient(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        match known(&x) {
            true => products::weight_gradient(x, gradient),
            false => Self::linear_weight_backward(x, gradient),
        }
    }

    fn linear_bias_gradient(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        match known(&gradient) {
            true => products::bias_gradient(gradient),
            false => Self::linear_bias_backward(gradient),
        }
    }
}
