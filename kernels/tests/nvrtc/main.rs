//! The kernels as CUDA: generated for an A100 and for an H100 or H200, and compiled to machine code.
//!
//! A client whose "device" only compiles is handed to the crate's own launches, so what is compiled
//! is what a launch would run, with the tiles that it would choose. The C++ that CubeCL generates is
//! compiled by NVRTC, NVIDIA's run-time compiler, which needs no GPU; nothing is executed. CubeCL's
//! other way to CUDA, through LLVM, is not covered: it cannot be linked here.
//!
//! NVRTC is looked for in the folder that `LYNX_NVRTC` names, which holds `lib` and `include`, as the
//! Python packages `nvidia-cuda-nvrtc` and `nvidia-cuda-runtime` have them below `nvidia/cu13`. Where
//! there is none, the generated source is still checked for what it must contain, and the rest is
//! skipped with a message.

mod compiler;
mod launches;
mod server;

use compiler::Nvrtc;

/// Compute capability, and shared memory that a block may opt into, in bytes.
const TARGETS: [(u32, usize); 2] = [(80, 163 << 10), (90, 227 << 10)];

#[test]
fn every_kernel_becomes_machine_code_for_ampere_and_hopper() {
    let nvrtc = Nvrtc::find();
    if nvrtc.is_none() {
        println!("skipped: no NVRTC in the folder that LYNX_NVRTC names");
    }
    for (capability, shared) in TARGETS {
        let (client, sources) = server::connect(capability, shared);
        launches::all(&client);
        client.flush().expect("a device that only compiles");
        let mut sources = sources.lock().expect("no launch panicked").clone();
        sources.sort();
        sources.dedup();
        let names: Vec<&str> = sources.iter().map(|(name, _)| name.as_str()).collect();
        for wanted in launches::KERNELS {
            assert!(
                names.iter().any(|name| name.contains(wanted)),
                "{wanted} not in {names:?}"
            );
        }
        for (name, source) in &sources {
            let source = source
                .as_ref()
                .unwrap_or_else(|error| panic!("{name} for sm_{capability}: {error}"));
            assert!(source.contains("__global__"), "{name}: {source}");
            let Some(nvrtc) = &nvrtc else { continue };
            match nvrtc.compile(source, capability) {
                Ok(made) => {
                    assert!(made.bytes > 0, "{name} for sm_{capability} is empty");
                    println!(
                        "sm_{capability} {:>7} bytes {name} {}",
                        made.bytes, made.remarks
                    );
                }
                Err(log) => panic!("{name} for sm_{capability}: {log}\n{source}"),
            }
        }
        println!("sm_{capability}: {} kernels", sources.len());
    }
}
