//! Loops that the compiler turns into vector instructions.
//!
//! Nothing here names an instruction. A kernel's inner loop is written over arrays of fixed width,
//! inlined into [`vectorised`], which `pulp` compiles twice: for AVX2 with fused multiply-add, taken
//! where the processor has them, and for the plain target. Fused multiply-add rounds once, wherever
//! it is computed, so both give the same bits; without the instruction it is slow.

mod exp;
mod normal;
mod reduce;

pub(crate) use exp::exp;
pub(crate) use normal::{cdf, cdf_and_density};
pub(crate) use reduce::{max, sum, sum_pairs};

/// Elements that inner loops take at a time: two vectors of AVX2, four chains' worth of
/// independent operations when unrolled once.
pub(crate) const LANES: usize = 16;

/// Runs `body` with the best instructions the processor has.
///
/// Everything that `body` calls must be `#[inline(always)]` to be compiled for them.
#[inline(always)]
pub(crate) fn vectorised<R>(body: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(body)
}
