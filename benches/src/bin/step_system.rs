//! A training process with the system's allocator.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    lynx_benches::frameworks::child::serve()
}
