//! These tests' program has no counting allocator. What needs one is in the workspace's `tests`.

use burn::nn::{Linear, LinearConfig};

use super::*;
use crate::plan::layout::Segment;
use crate::runtime::chain::Context;
use crate::units::Bytes;

/// Linear layers, the last of them outside layers.
#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Option<Linear>>,
}

impl Chain for Mlp {
    type Boundary = Tensor<2>;
    type Target = Tensor<2>;

    fn segments(&self) -> Vec<Segment> {
        let last = self.layers.len() - 1;
        let layers = (0..last).map(|layer| Segment::in_layer(layer, "dense"));
        layers.chain([Segment::outside("out")]).collect()
    }

    fn keep(mut self, range: std::ops::Range<usize>) -> Self {
        for (index, layer) in self.layers.iter_mut().enumerate() {
            layer.take_if(|_| !range.contains(&index));
        }
        self
    }

    fn forward_segment(&self, index: usize, input: Tensor<2>, _: &Context) -> Tensor<2> {
        let layer = self.layers[index].as_ref().expect("kept for this segment");
        layer.forward(input).tanh()
    }

    fn loss(&self, output: Tensor<2>, target: Tensor<2>, _: &Context) -> Tensor<1> {
        (output - target).square().mean()
    }
}

#[test]
fn without_a_counting_allocator_bytes_are_guessed_and_said_to_be() {
    let device = Device::flex();
    let layer = || Some(LinearConfig::new(8, 8).init(&device));
    let model = Mlp {
        layers: vec![layer(), layer(), layer()],
    };
    let input = Tensor::ones([4, 8], &device);
    let target = Tensor::zeros([4, 8], &device);
    let options = MeasureOptions {
        optimizer_copies: 1,
        repeats: 2,
        ..MeasureOptions::default()
    };
    let measured = measure(model, input, target, &device, &options).expect("a profile");
    assert_eq!(measured.bytes_from, BytesFrom::BoundarySizes);
    assert!(!measured.bytes_from.tapes_measured() && !measured.bytes_from.workspace_measured());
    let profile = &measured.profile;
    assert_eq!((profile.kinds.len(), profile.layer_count()), (1, 2));
    let [dense] = &profile.kinds[0].segments[..] else {
        panic!("one segment a layer: {profile:?}");
    };
    // 4 rows of 8 numbers of 4 bytes come in and go out; 8 x 8 weights and 8 biases.
    assert_eq!((dense.boundary, dense.kept_input), (Bytes(128), Bytes(128)));
    assert_eq!((dense.tape, dense.workspace), (Bytes(256), Bytes(0)));
    assert_eq!(dense.weights.parameters, Bytes(288));
    assert_eq!(dense.weights.optimizer, Bytes(288));
    assert_eq!(profile.head[0].boundary, Bytes(4));
    let table = measured.to_string();
    assert!(
        table.contains("~256 B") && table.contains("guessed"),
        "{table}"
    );
}
