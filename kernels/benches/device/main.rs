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
use serde::Serialize;

use timing::Row;

#[derive(Serialize)]
struct Report {
    device: String,
    runtime: &'static str,
    small: bool,
    rounds: usize,
    rows: Vec<Row>,
}

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
    let mut report = Report {
        device: format!("{} ({device:?})", client.properties().identity.name),
        runtime: client.name(),
        small,
        rounds,
        rows: Vec::new(),
    };
    println!("{}, {}", report.device, report.runtime);
    for dtype in work::dtypes(&client) {
        let all = work::all(&client, dtype, small)?;
        let rows = timing::take_turns(&client, dtype, all, rounds)?;
        for row in &rows {
            println!("{row}");
        }
        report.rows.extend(rows);
    }
    if let Some(out) = out {
        std::fs::write(out, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}
