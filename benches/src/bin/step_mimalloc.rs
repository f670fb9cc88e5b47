//! A training process with the example's allocator.

use gpt_example::allocator;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::new();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    allocator::keep_freed_pages();
    lynx_benches::frameworks::child::serve()
}
