//! A small chain of lynx-burn's modules: everything that has a kernel.

use std::ops::Range;

use burn::nn::{Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::TensorData;
use lynx_burn::nn::{
    CausalSelfAttention, CausalSelfAttentionConfig, CrossEntropyLoss, CrossEntropyLossConfig,
    Dropout, DropoutConfig, Gelu, LayerNorm, LayerNormConfig,
};
use lynx_burn::plan::layout::Segment;
use lynx_burn::{Chain, Context, MicroBatch};

use crate::values::{normal, targets};

const HEADS: usize = 2;
const WIDTH: usize = 18;
const CLASSES: usize = 13;
const SEQ: usize = 7;

/// A layer of three segments: norm and attention; dropout, residual, norm and the MLP's first half; its
/// second half.
#[derive(Module, Debug)]
pub(crate) struct Layer {
    norms: [LayerNorm; 2],
    qkv: Linear,
    attention: CausalSelfAttention,
    joining: Linear,
    dropout: Dropout,
    up: Linear,
    gelu: Gelu,
    down: Linear,
}

/// Layers and a head; its input are hidden states, so every segment has a gradient to hand on.
#[derive(Module, Debug)]
pub(crate) struct Net {
    layers: Vec<Option<Layer>>,
    head: Option<Linear>,
    loss: CrossEntropyLoss,
    /// Whether segments leave memory behind that is full of what is not a number.
    litter: bool,
}

impl Layer {
    fn new(device: &Device) -> Self {
        let dense = |from, to| LinearConfig::new(from, to).init(device);
        Self {
            norms: [0, 1].map(|_| LayerNormConfig::new(WIDTH).init(device)),
            qkv: dense(WIDTH, 3 * WIDTH),
            attention: CausalSelfAttentionConfig::new(HEADS)
                .with_dropout(0.1)
                .init()
                .expect("a probability"),
            joining: dense(WIDTH, WIDTH),
            dropout: DropoutConfig::new(0.1).init().expect("a probability"),
            up: dense(WIDTH, 4 * WIDTH),
            gelu: Gelu::new(),
            down: dense(4 * WIDTH, WIDTH),
        }
    }
}

impl Net {
    /// Drawn on the CPU; the same on every device that it is moved to.
    pub(crate) fn new(layers: usize) -> Self {
        let device = Device::flex().autodiff();
        Self {
            layers: (0..layers).map(|_| Some(Layer::new(&device))).collect(),
            head: Some(LinearConfig::new(WIDTH, CLASSES).init(&device)),
            loss: CrossEntropyLossConfig::new().init(),
            litter: false,
        }
        // Burn draws parameters when they are first asked for.
        .valid()
        .train()
    }

    /// The same, but memory that is used too early or too late is not a number.
    pub(crate) fn littering(self) -> Self {
        Self {
            litter: true,
            ..self
        }
    }
}

/// Micro-batch number `seed`: sequences of hidden states, and a class for each position.
pub(crate) fn batch(seed: u64, samples: usize, device: &Device) -> MicroBatch<Net> {
    MicroBatch {
        input: (normal(seed, [samples, SEQ, WIDTH], device), None),
        target: targets(samples * SEQ, CLASSES, device),
        weight: samples,
    }
}

impl Chain for Net {
    /// Hidden states, and what will be added to them.
    type Boundary = (Tensor<3>, Option<Tensor<3>>);
    type Target = Tensor<1, Int>;

    fn segments(&self) -> Vec<Segment> {
        let layers = 0..self.layers.len();
        let names = ["attention", "up", "down"];
        layers
            .flat_map(|layer| names.map(|name| Segment::in_layer(layer, name)))
            .chain([Segment::outside("head")])
            .collect()
    }

    fn keep(mut self, range: Range<usize>) -> Self {
        for (index, layer) in self.layers.iter_mut().enumerate() {
            if (3 * index..3 * index + 3).all(|segment| !range.contains(&segment)) {
                *layer = None;
            }
        }
        if !range.contains(&(3 * self.layers.len())) {
            self.head = None;
        }
        self
    }

    fn forward_segment(
        &self,
        index: usize,
        (hidden, residual): Self::Boundary,
        context: &Context,
    ) -> Self::Boundary {
        if self.litter {
            litter(index, &hidden.device().inner());
        }
        let Some(layer) = self.layers.get(index / 3).map(|layer| layer.as_ref()) else {
            let head = self.head.as_ref().expect("kept");
            return (head.forward(hidden), None);
        };
        let layer = layer.expect("kept");
        match (index % 3, residual) {
            (0, _) => {
                let qkv = layer.qkv.forward(layer.norms[0].forward(hidden.clone()));
                let mixed = layer.attention.forward(qkv, context);
                (layer.joining.forward(mixed), Some(hidden))
            }
            (1, Some(residual)) => {
                let sum = layer.dropout.forward_add(hidden, residual, context);
                let up = layer.up.forward(layer.norms[1].forward(sum.clone()));
                (layer.gelu.forward(up), Some(sum))
            }
            (_, Some(residual)) => {
                let down = layer.down.forward(hidden);
                (layer.dropout.forward_add(down, residual, context), None)
            }
            (_, None) => unreachable!("the segment before hands on a residual"),
        }
    }

    fn loss(&self, (logits, _): Self::Boundary, target: Self::Target, _: &Context) -> Tensor<1> {
        let [samples, seq, classes] = logits.dims();
        self.loss
            .forward(logits.reshape([samples * seq, classes]), target)
    }
}

/// Takes memory of sizes that tensors of the chain have, fills it and lets go of it, on the stream that
/// the segment runs on.
fn litter(index: usize, device: &Device) {
    for size in [SEQ * WIDTH, 4 * SEQ * WIDTH, 3 * (index + 1) * SEQ * WIDTH] {
        let junk = TensorData::new(vec![f32::NAN; size], [size]);
        let _ = Tensor::<1>::from_data(junk, device).mul_scalar(2.0);
    }
}
