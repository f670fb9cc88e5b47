//! What the device kernels take, beside a plain copy of as many bytes.
//!
//! `device [--small] [--rounds N] [--out FILE]`. Before anything is timed, recomputations are
//! compared with their forwards, byte for byte, in the sizes that are timed. Then all kernels of
//! one type of element take turns; a turn is as many launches as fill some milliseconds, and one
//! wait for the device at their end. Bandwidth counts the bytes that a kernel must move, from its
//! definition, not those that it does move.

mod copy;
mod timing;
mod work;

use std::path::PathBuf;

use lynx_kernels::cube::cubecl::Device;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut small = false;
    let mut rounds = 15;
    let mut out: Option<PathBuf> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--small" => small = true,
            "--rounds" => rounds = arguments.next().ok_or("--rounds N")?.parse()?,
            "--out" => out = Some(arguments.next().ok_or("--out FILE")?.into()),
            // cargo bench says so.
            "--bench" => {}
            other => return Err(format!("{other} is no option of this benchmark").into()),
        }
    }
    let Some(device) = Device::enumerate_all().into_iter().next() else {
        println!("skipped: this machine has no device for the runtimes of this build");
        return Ok(());
    };
    let client = device.client();
    let name = format!("{} ({device:?})", client.properties().identity.name);
    println!("{name}, {}", client.name());
    let mut rows = Vec::new();
    for dtype in work::dtypes(&client) {
        let all = work::all(&client, dtype, small)?;
        for row in timing::take_turns(&client, dtype, all, rounds)? {
            println!("{row}");
            rows.push(row.json());
        }
    }
    if let Some(out) = out {
        let text = format!(
            "{{\"device\": {name:?}, \"runtime\": {:?}, \"small\": {small}, \"rounds\": {rounds}, \
             \"rows\": [\n{}\n]}}\n",
            client.name(),
            rows.join(",\n"),
        );
        std::fs::write(out, text)?;
    }
    Ok(())
}
