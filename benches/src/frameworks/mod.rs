//! The same training step in other processes: other modules, other allocators, PyTorch.
//!
//! An allocator is a program's, and PyTorch is Python's, so each variant is a process. They take turns:
//! each waits for a line on its input before it runs a step.
//!
//! - [`problem`] is what all of them train, on which data;
//! - [`child`] is one of ours; PyTorch's is `benches/pytorch/gpt.py`;
//! - [`peer`] is a child as its parent sees it.

pub mod child;
pub mod peer;
pub mod problem;
