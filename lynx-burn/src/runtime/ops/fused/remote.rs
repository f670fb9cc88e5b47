//! Devices of another process or machine: the composed defaults, so that a server needs nothing
//! installed.

use burn::backend::Remote;
use burn::backend::tensor::{FloatTensor, IntTensor};
use lynx_kernels::gelu::Form;

use super::{Drop, Kernels, Optional, fused_ops};

fused_ops!(Remote);

impl Kernels for Remote {}
