//! A small chain that can be given every feature a chain may have.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::nn::{Gelu, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::{Distribution, activation};
use lynx_burn::nn::{Dropout, DropoutConfig};
use lynx_burn::plan::layout::Segment;
use lynx_burn::{Boundary, Chain, Constant, Context, MicroBatch, TensorMap};

/// What one segment does to the hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A linear layer and GELU.
    Dense,
    /// A product with a square matrix and tanh: autodiff keeps both factors and the result.
    Tanh,
    /// The one linear layer that all segments of this kind share.
    Shared,
    /// Layer normalisation.
    Norm,
    /// Remembers the hidden state beside itself, unless one is remembered: it passes through the
    /// segments that follow.
    Open,
    /// Adds what was remembered.
    Close,
    /// Dropout with probability 0.1, twice, so that sites differ.
    Drop,
    /// Multiplies by the float mask and blanks what the boolean mask names.
    Mask,
    /// Scales by a softmax of itself: several uses of one tensor.
    Gate,
    /// Burn's own dropout, which must be refused where it would be recomputed.
    BurnDrop,
}

/// How a segment misbehaves.
#[derive(Clone, Debug)]
pub enum Misbehaviour {
    /// Panics.
    Panic,
    /// Waits until the sender of this channel is gone.
    Stall(Arc<std::sync::Mutex<std::sync::mpsc::Receiver<()>>>),
    /// Returns one column less.
    WrongShape,
    /// Returns one column less from the second call on: the recomputation differs.
    WrongShapeAgain,
    /// Multiplies by a value that is not a number.
    NotANumber,
}

/// Which segment misbehaves, and for which micro-batch.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The segment.
    pub segment: usize,
    /// The micro-batch.
    pub micro_batch: usize,
    /// How.
    pub kind: Misbehaviour,
}

/// What a [`Net`] is made of.
#[derive(Clone, Debug)]
pub struct NetSpec {
    /// Its segments.
    pub steps: Vec<Step>,
    /// Segments in a layer.
    pub per_layer: usize,
    /// Width of the hidden state.
    pub width: usize,
    /// Segments whose parameters are frozen.
    pub frozen: Vec<usize>,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

impl NetSpec {
    /// A chain of these segments, each a layer, 8 wide.
    pub fn new(steps: impl Into<Vec<Step>>) -> Self {
        Self {
            steps: steps.into(),
            per_layer: 1,
            width: 8,
            frozen: Vec::new(),
            fault: None,
        }
    }

    /// Counted calls, masks and parameters on `device`.
    pub fn init(&self, device: &Device) -> Net {
        let linear = || LinearConfig::new(self.width, self.width).init(device);
        let cells = self
            .steps
            .iter()
            .enumerate()
            .map(|(index, step)| {
                let cell = Cell {
                    linear: match step {
                        Step::Dense => Some(linear()),
                        Step::Tanh => Some(
                            LinearConfig::new(self.width, self.width)
                                .with_bias(false)
                                .init(device),
                        ),
                        _ => None,
                    },
                    norm: (*step == Step::Norm)
                        .then(|| LayerNormConfig::new(self.width).init(device)),
                    dropout: (*step == Step::Drop)
                        .then(|| DropoutConfig::new(0.1).init().expect("a probability")),
                    burn_dropout: (*step == Step::BurnDrop)
                        .then(|| burn::nn::DropoutConfig::new(0.1).init()),
                };
                Some(if self.frozen.contains(&index) {
                    cell.no_grad()
                } else {
                    cell
                })
            })
            .collect();
        Net {
            cells,
            shared: self.steps.contains(&Step::Shared).then(linear),
            calls: Calls::new(self.steps.len()),
            spec: self.clone(),
            learn_shared_in: None,
        }
    }

    /// A micro-batch of `samples` random rows.
    pub fn batch(&self, samples: usize, device: &Device) -> MicroBatch<Net> {
        let random = || {
            Tensor::<2>::random(
                [samples, self.width],
                Distribution::Uniform(-1.0, 1.0),
                device,
            )
        };
        MicroBatch {
            input: Flow {
                hidden: random(),
                skip: None,
                scale: Constant(random()),
                blank: random().greater_elem(0.8),
                rows: Tensor::arange(0..samples as i64, device),
            },
            target: random(),
            weight: samples,
        }
    }
}

/// How often each segment's forward was called.
#[derive(Clone, Debug)]
pub struct Calls(Arc<Vec<AtomicU64>>);

impl Calls {
    fn new(segments: usize) -> Self {
        Self(Arc::new((0..segments).map(|_| AtomicU64::new(0)).collect()))
    }

    /// The counts, which begin anew.
    pub fn take(&self) -> Vec<u64> {
        self.0
            .iter()
            .map(|count| count.swap(0, Ordering::SeqCst))
            .collect()
    }
}

/// The model.
#[derive(Module, Debug)]
pub struct Net {
    cells: Vec<Option<Cell>>,
    shared: Option<Linear>,
    /// Calls of each segment's forward, on whatever stage.
    #[module(skip)]
    pub calls: Calls,
    #[module(skip)]
    spec: NetSpec,
    /// If set, the shared layer learns from its use in this segment only.
    #[module(skip)]
    learn_shared_in: Option<usize>,
}

/// One segment's modules.
#[derive(Module, Debug)]
struct Cell {
    linear: Option<Linear>,
    norm: Option<LayerNorm>,
    dropout: Option<Dropout>,
    burn_dropout: Option<burn::nn::Dropout>,
}

/// What passes between segments.
#[derive(Clone, Debug)]
pub struct Flow {
    /// `[samples, width]`
    pub hidden: Tensor<2>,
    /// `[samples, width]`, between an `Open` and its `Close`.
    pub skip: Option<Tensor<2>>,
    /// `[samples, width]`, without gradient.
    pub scale: Constant<2>,
    /// `[samples, width]`
    pub blank: Tensor<2, Bool>,
    /// `[samples]`, the identity permutation.
    pub rows: Tensor<1, Int>,
}

impl Boundary for Flow {
    fn map_tensors<M: TensorMap>(self, map: &mut M) -> Self {
        Self {
            hidden: self.hidden.map_tensors(map),
            skip: self.skip.map_tensors(map),
            scale: self.scale.map_tensors(map),
            blank: self.blank.map_tensors(map),
            rows: self.rows.map_tensors(map),
        }
    }
}

impl Chain for Net {
    type Boundary = Flow;
    type Target = Tensor<2>;

    fn segments(&self) -> Vec<Segment> {
        self.spec
            .steps
            .iter()
            .enumerate()
            .map(|(index, step)| {
                Segment::in_layer(
                    index / self.spec.per_layer,
                    format!("{step:?}").to_lowercase(),
                )
            })
            .collect()
    }

    fn keep(mut self, range: Range<usize>) -> Self {
        if !self.spec.steps[range.clone()].contains(&Step::Shared) {
            self.shared = None;
        }
        for (index, cell) in self.cells.iter_mut().enumerate() {
            if !range.contains(&index) {
                *cell = None;
            }
        }
        self
    }

    fn forward_segment(&self, index: usize, input: Flow, context: &Context) -> Flow {
        let earlier_calls = self.calls.0[index].fetch_add(1, Ordering::SeqCst);
        let cell = self.cells[index].as_ref().expect("kept for this segment");
        let hidden = input.hidden;
        let mut skip = input.skip;
        let hidden = match self.spec.steps[index] {
            Step::Dense => {
                Gelu::new().forward(cell.linear.as_ref().expect("dense").forward(hidden))
            }
            Step::Tanh => cell.linear.as_ref().expect("tanh").forward(hidden).tanh(),
            Step::Shared => {
                let shared = self.shared.clone().expect("shared");
                match self.learn_shared_in {
                    Some(segment) if segment != index => shared.no_grad().forward(hidden),
                    _ => shared.forward(hidden),
                }
            }
            Step::Norm => cell.norm.as_ref().expect("norm").forward(hidden),
            Step::Open => {
                skip = skip.or_else(|| Some(hidden.clone()));
                hidden
            }
            Step::Close => match skip.take() {
                Some(open) => hidden + open,
                None => hidden,
            },
            Step::Drop => {
                let dropout = cell.dropout.as_ref().expect("dropout");
                dropout.forward(dropout.forward(hidden, context), context)
            }
            Step::Mask => {
                let rows = hidden.select(0, input.rows.clone());
                (rows * input.scale.0.clone()).mask_fill(input.blank.clone(), 0.1)
            }
            Step::Gate => activation::softmax(hidden.clone(), 1) * hidden,
            Step::BurnDrop => cell.burn_dropout.as_ref().expect("dropout").forward(hidden),
        };
        let hidden = self.misbehave(index, hidden, context, earlier_calls);
        Flow {
            hidden,
            skip,
            scale: input.scale,
            blank: input.blank,
            rows: input.rows,
        }
    }

    fn loss(&self, output: Flow, target: Tensor<2>, _: &Context) -> Tensor<1> {
        (output.hidden - target).square().mean()
    }
}

impl Net {
    /// The layer that several segments use.
    pub fn shared(&self) -> Option<&Linear> {
        self.shared.as_ref()
    }

    /// The same model, whose shared layer learns from its use in `segment` only.
    #[must_use]
    pub fn learning_shared_in(mut self, segment: usize) -> Self {
        self.learn_shared_in = Some(segment);
        self
    }

    fn misbehave(
        &self,
        index: usize,
        hidden: Tensor<2>,
        context: &Context,
        earlier_calls: u64,
    ) -> Tensor<2> {
        let Some(fault) = &self.spec.fault else {
            return hidden;
        };
        if fault.segment != index || fault.micro_batch != context.micro_batch().0 {
            return hidden;
        }
        let narrow = |hidden: Tensor<2>| hidden.narrow(1, 0, self.spec.width - 1);
        match &fault.kind {
            Misbehaviour::Panic => panic!("injected"),
            Misbehaviour::Stall(gate) => {
                let _ = gate.lock().expect("one waits at a time").recv();
                hidden
            }
            Misbehaviour::WrongShape => narrow(hidden),
            Misbehaviour::WrongShapeAgain if earlier_calls > 0 => narrow(hidden),
            Misbehaviour::WrongShapeAgain => hidden,
            Misbehaviour::NotANumber => hidden.mul_scalar(f32::NAN),
        }
    }
}
