//! The CubeCL backends: wgpu and CUDA.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn_cubecl::CubeBackend;
use lynx_kernels::gelu::Form;

use super::{Drop, Kernels, Optional, fused_ops};

fused_ops!(CubeBackend);

impl Kernels for CubeBackend {}
