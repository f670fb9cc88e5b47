//! Burn's tensors as the kernels', and back.

use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeDevice, cubecl};
use cubecl::client::Client;
use cubecl::std::tensor::TensorHandle;

/// A tensor as the kernels read it: contiguous, copied if it is not.
pub(super) fn read(tensor: &CubeTensor) -> TensorHandle {
    into_contiguous(tensor.clone()).into()
}

/// The same of one that may be absent.
pub(super) fn read_optional(tensor: Option<&CubeTensor>) -> Option<TensorHandle> {
    tensor.map(read)
}

/// The same as a vector of all its elements.
pub(super) fn read_flat(tensor: &CubeTensor) -> TensorHandle {
    let flat = read(tensor);
    TensorHandle::new_contiguous(vec![tensor.shape().num_elements()], flat.handle, flat.dtype)
}

/// Where kernels run that work on a tensor, and what they make lives.
pub(super) struct Home {
    pub(super) client: Client,
    device: CubeDevice,
}

impl Home {
    pub(super) fn of(tensor: &CubeTensor) -> Self {
        Self {
            client: tensor.client.clone(),
            device: tensor.device.clone(),
        }
    }

    /// What a kernel made, of the type that `like` has.
    pub(super) fn made(&self, tensor: TensorHandle, like: &CubeTensor) -> CubeTensor {
        CubeTensor::new(
            self.client.clone(),
            tensor.handle,
            *tensor.metadata,
            self.device.clone(),
            like.dtype,
        )
    }

    /// A kernel's contiguous `f32` statistics, in another shape of as many elements.
    pub(super) fn statistics(&self, tensor: TensorHandle, shape: Shape) -> CubeTensor {
        CubeTensor::new_contiguous(
            self.client.clone(),
            self.device.clone(),
            shape,
            tensor.handle,
            DType::F32,
        )
    }
}
