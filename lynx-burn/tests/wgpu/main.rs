//! The fused operations and whole steps of training on a device, against Flex.

#[test]
fn something_runs() {
    let device = burn::prelude::Device::wgpu(Default::default());
    let x = burn::tensor::Tensor::<1>::zeros([3], &device);
    assert_eq!(x.sum().into_scalar::<f32>(), 0.0);
}
