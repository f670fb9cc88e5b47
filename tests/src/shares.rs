//! A small chain that ranks can share, and that can be told to go wrong on one of them.
//!
//! A layer is two halves, each a product whose columns are dealt to the ranks and one whose rows
//! are, so that sums stand inside layers and between them: every kind of window is there.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use burn::nn::{Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::module::interpolate;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use lynx_burn::plan::layout::Segment;
use lynx_burn::{Boundary, Chain, Context, MicroBatch, Sharding, Summed, TensorMap};

/// Segments of a layer: `up`, `down`, `wide`, `narrow`; a sum follows the second and the fourth.
pub const PER_LAYER: usize = 4;

/// What goes wrong in one segment.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The first forward panics.
    InForward,
    /// The forward panics the second time.
    InRecompute,
    /// The backward panics: of the operation that is used, the CPU backend has none.
    InBackward,
    /// The forward waits until the sender of this channel is gone.
    Stall(Arc<Mutex<Receiver<()>>>),
    /// One row less is handed over to be summed.
    RowLess,
    /// What is to be summed is handed on as if it were the sum.
    NothingSummed,
    /// A sum is asked for where the chain tells of none.
    Unannounced,
}

/// Where it does.
#[derive(Clone, Debug)]
pub struct Troubled {
    /// The segment.
    pub segment: usize,
    /// The rank, or all of them.
    pub rank: Option<usize>,
    /// The micro-batch.
    pub micro_batch: usize,
    /// What.
    pub trouble: Trouble,
}

/// What a [`Shares`] is made of.
#[derive(Clone, Debug)]
pub struct SharesSpec {
    /// Layers of [`PER_LAYER`] segments.
    pub layers: usize,
    /// Of the hidden state; between two products it is twice that.
    pub width: usize,
    /// What goes wrong.
    pub troubled: Option<Troubled>,
}

/// The model.
#[derive(Module, Debug)]
pub struct Shares {
    /// One for each segment.
    products: Vec<Option<Linear>>,
    #[module(skip)]
    spec: SharesSpec,
    /// Forwards of the troubled segment, by whoever is troubled.
    #[module(skip)]
    calls: Arc<AtomicU64>,
}

/// What passes between segments.
#[derive(Clone, Debug)]
pub struct Halfway {
    /// `[samples, width]`, the same on every rank.
    pub hidden: Tensor<2>,
    /// `[samples, 2 * width / ranks]`, between the two products of a half.
    pub inner: Option<Tensor<2>>,
    /// `[samples, width]`, behind a half: what is to be added to the hidden state.
    pub part: Option<Summed<2>>,
}

impl Boundary for Halfway {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        Self {
            hidden: self.hidden.map_tensors(map),
            inner: self.inner.map_tensors(map),
            part: self.part.map_tensors(map),
        }
    }
}

impl SharesSpec {
    /// So many layers, 8 wide, nothing wrong.
    pub fn new(layers: usize) -> Self {
        Self {
            layers,
            width: 8,
            troubled: None,
        }
    }

    /// Parameters on `device`.
    pub fn init(&self, device: &Device) -> Shares {
        let products = (0..self.layers * PER_LAYER).map(|segment| {
            let (input, output) = match segment % 2 {
                0 => (self.width, 2 * self.width),
                _ => (2 * self.width, self.width),
            };
            // A bias behind a sum would have to be added once.
            let product = LinearConfig::new(input, output).with_bias(segment % 2 == 0);
            Some(product.init(device))
        });
        Shares {
            products: products.collect(),
            spec: self.clone(),
            calls: Arc::default(),
        }
    }

    /// A micro-batch of `samples` random rows.
    pub fn batch(&self, samples: usize, device: &Device) -> MicroBatch<Shares> {
        let shape = [samples, self.width];
        let random = || Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device);
        MicroBatch {
            input: Halfway {
                hidden: random(),
                inner: None,
                part: None,
            },
            target: random(),
            weight: samples,
        }
    }
}

impl Chain for Shares {
    type Boundary = Halfway;
    type Target = Tensor<2>;

    fn segments(&self) -> Vec<Segment> {
        let names = ["up", "down", "wide", "narrow"];
        (0..self.spec.layers * PER_LAYER)
            .map(|index| {
                let segment = Segment::in_layer(index / PER_LAYER, names[index % PER_LAYER]);
                match index % 2 {
                    0 => segment,
                    _ => segment.summed(),
                }
            })
            .collect()
    }

    fn keep(mut self, range: Range<usize>) -> Self {
        for (index, product) in self.products.iter_mut().enumerate() {
            if !range.contains(&index) {
                *product = None;
            }
        }
        self
    }

    fn forward_segment(&self, index: usize, input: Halfway, context: &Context) -> Halfway {
        let product = self.products[index]
            .as_ref()
            .expect("kept for this segment");
        let output = if index.is_multiple_of(2) {
            let hidden = whole(input.hidden, input.part);
            Halfway {
                inner: Some(product.forward(hidden.clone()).tanh()),
                hidden,
                part: None,
            }
        } else {
            let inner = input.inner.expect("made by the segment before");
            Halfway {
                hidden: input.hidden,
                inner: None,
                part: Some(Summed(product.forward(inner))),
            }
        };
        self.trouble(index, output, context)
    }

    fn loss(&self, output: Halfway, target: Tensor<2>, context: &Context) -> Tensor<1> {
        let error = whole(output.hidden, output.part) - target;
        error.square().mean() / context.ranks() as f64
    }

    fn sharding(&self, path: &str) -> Sharding {
        let mut names = path.split('.').skip(1);
        let segment: Option<usize> = names.next().and_then(|name| name.parse().ok());
        match (segment.map(|segment| segment % 2), names.next()) {
            (Some(0), Some("weight")) => Sharding::COLUMNS,
            (Some(0), Some(_)) => Sharding::split(0, 1),
            _ => Sharding::ROWS,
        }
    }
}

/// The hidden state with what is to be added to it.
fn whole(hidden: Tensor<2>, part: Option<Summed<2>>) -> Tensor<2> {
    match part {
        Some(Summed(sum)) => hidden + sum,
        None => hidden,
    }
}

impl Shares {
    fn trouble(&self, index: usize, output: Halfway, context: &Context) -> Halfway {
        let Some(troubled) = &self.spec.troubled else {
            return output;
        };
        let here = troubled.segment == index && troubled.micro_batch == context.micro_batch().0;
        if !here || troubled.rank.is_some_and(|rank| rank != context.rank().0) {
            return output;
        }
        let earlier = self.calls.fetch_add(1, Ordering::SeqCst);
        let part = output.part.clone();
        match &troubled.trouble {
            Trouble::InForward => panic!("injected"),
            Trouble::InRecompute if earlier == 0 => output,
            Trouble::InRecompute => panic!("injected"),
            Trouble::InBackward => Halfway {
                inner: output.inner.map(forward_only),
                part: part.map(|Summed(part)| Summed(forward_only(part))),
                ..output
            },
            Trouble::Stall(gate) => {
                let _ = gate.lock().expect("one waits at a time").recv();
                output
            }
            Trouble::RowLess => Halfway {
                part: part.map(|Summed(part)| Summed(part.slice(1..))),
                ..output
            },
            Trouble::NothingSummed => Halfway {
                hidden: whole(output.hidden, part),
                part: None,
                ..output
            },
            Trouble::Unannounced => Halfway {
                part: Some(Summed(output.hidden.clone())),
                ..output
            },
        }
    }
}

/// `tensor` through an interpolation whose backward the CPU backend lacks.
fn forward_only(tensor: Tensor<2>) -> Tensor<2> {
    let [rows, columns] = tensor.dims();
    let options = InterpolateOptions::new(InterpolateMode::Lanczos3);
    let image = tensor.reshape([1, 1, rows, columns]);
    interpolate(image, options.with_output_size([rows, columns])).reshape([rows, columns])
}
