//! How large the tiles are.

use cubecl::prelude::*;

use super::super::CubeError;

/// The tiles of one launch: `tile` queries by `tile` keys a cube, of which every unit computes
/// `micro` by `micro`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionBlueprint {
    /// Queries, and keys, of a tile.
    pub tile: usize,
    /// Queries, and keys, of a unit. Divides `tile`.
    pub micro: usize,
}

impl AttentionBlueprint {
    /// For devices with more than 64 KiB of shared memory a cube, such as Hopper through CUDA:
    /// 256 units, 73 KiB at a head width of 64.
    pub const LARGE: Self = Self { tile: 64, micro: 4 };
    /// For 32 to 48 KiB a cube, what Vulkan gives on most GPUs: 64 units, 31 KiB at a width of 64.
    pub const MEDIUM: Self = Self { tile: 32, micro: 4 };
    /// For small GPUs, or heads of 128: 64 units, 14 KiB at a width of 64.
    pub const SMALL: Self = Self { tile: 16, micro: 2 };
    /// For the least that WebGPU promises, 16 KiB, up to a width of 128.
    pub const TINY: Self = Self { tile: 8, micro: 1 };

    /// The largest that runs on the client's device.
    ///
    /// # Errors
    ///
    /// If heads are so wide that none does.
    pub fn for_device(client: &Client, head_dim: usize) -> Result<Self, CubeError> {
        [Self::LARGE, Self::MEDIUM, Self::SMALL, Self::TINY]
            .into_iter()
            .find(|blueprint| blueprint.check(client, head_dim).is_ok())
            .ok_or(CubeError::TooLarge {
                what: "width of a head",
                found: head_dim,
                limit: Self::TINY.widest_head(client),
            })
    }

    /// Whether it runs on the client's device.
    ///
    /// # Errors
    ///
    /// If units do not fill the tile, or shared memory or units of a cube do not suffice.
    pub fn check(self, client: &Client, head_dim: usize) -> Result<(), CubeError> {
        if self.micro == 0 || self.tile == 0 || !self.tile.is_multiple_of(self.micro) {
            return Err(CubeError::Value {
                what: "edge of a unit's part of a tile",
                found: self.micro as f64,
                expected: "a divisor of the tile's edge",
            });
        }
        let hardware = &client.properties().hardware;
        let units = self.side() * self.side();
        if units > hardware.max_units_per_cube as usize {
            return Err(CubeError::TooLarge {
                what: "units of a cube",
                found: units,
                limit: hardware.max_units_per_cube as usize,
            });
        }
        let bytes = self.shared_bytes(head_dim);
        if bytes > hardware.max_shared_memory_size {
            return Err(CubeError::TooLarge {
                what: "shared memory of a cube in bytes",
                found: bytes,
                limit: hardware.max_shared_memory_size,
            });
        }
        Ok(())
    }

    /// Units along an edge of the tile.
    pub(super) const fn side(self) -> usize {
        self.tile / self.micro
    }

    /// Bytes of shared memory that suffice for all kernels: three matrices of a tile's rows, the
    /// tile, and two numbers for each unit's share of a row. Rows are padded by one, so that
    /// neighbours lie in different banks.
    const fn shared_bytes(self, head_dim: usize) -> usize {
        let matrices = 3 * self.tile * (head_dim + 1);
        let scores = self.tile * (self.tile + 1);
        (matrices + scores + 2 * self.tile * self.side()) * size_of::<f32>()
    }

    fn widest_head(self, client: &Client) -> usize {
        let most = client.properties().hardware.max_shared_memory_size;
        (1..)
            .take_while(|&width| self.shared_bytes(width) <= most)
            .last()
            .unwrap_or(0)
    }
}
