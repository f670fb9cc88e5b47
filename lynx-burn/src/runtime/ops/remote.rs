//! Devices of another process or machine. The defaults compose standard operations, so a server
//! needs nothing installed to run them.

use burn::backend::Remote;

use super::RecomputeOps;

impl RecomputeOps for Remote {}
