//! The CubeCL backends: wgpu and CUDA.

use burn_cubecl::CubeBackend;

use super::RecomputeOps;

impl RecomputeOps for CubeBackend {}
