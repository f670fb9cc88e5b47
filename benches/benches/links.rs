//! Compares the emulated link with TCP.
//!
//! Without arguments: over loopback, quickly, as root or not. `links.sh` runs the other modes over
//! shaped devices: `receive ADDRESS`; `send ADDRESS NAME [BITS_PER_SECOND BURST_BYTES [DELAY_US]]`,
//! which prints what it measured; `report FILE..`, which makes the results of that.

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;

use lynx_benches::links::model::{compare, goodput};
use lynx_benches::links::report::{Results, Setup};
use lynx_benches::links::wire::{Flight, Pattern, send, serve};
use lynx_benches::machine::Machine;
use lynx_benches::rounds::quantile;
use lynx_burn::LinkSpeed;
use lynx_burn::units::Nanos;

/// From a small boundary to a large one.
const SIZES: [u64; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Messages of a series, by its kind.
const MESSAGES: [(Pattern, usize); 3] = [
    (Pattern::BackToBack, 16),
    (Pattern::OneAtATime, 12),
    (Pattern::NewConnection, 8),
];
const SMALL: u64 = 64;
const ROUND_TRIPS: usize = 200;

/// What a link is shaped to.
#[derive(Clone, Copy, Default)]
struct Shape {
    bits_per_second: Option<u64>,
    burst_bytes: Option<u64>,
    delay_us: Option<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        // `cargo test --benches` asks for a list of tests; there are none.
        _ if words.contains(&"--list") => Ok(()),
        ["receive", address] => {
            let listener = TcpListener::bind(address)?;
            println!("{}", listener.local_addr()?);
            Ok(serve(&listener)?)
        }
        ["send", address, name, ref shape @ ..] => {
            let number =
                |place: usize| shape.get(place).map(|word: &&str| word.parse()).transpose();
            let shape = Shape {
                bits_per_second: number(0)?,
                burst_bytes: number(1)?,
                delay_us: number(2)?,
            };
            let setup = measure(address.parse()?, name, shape)?;
            println!("{}", serde_json::to_string(&setup)?);
            Ok(())
        }
        ["report", ref files @ ..] => report(files),
        _ => loopback(),
    }
}

/// In one process, to standard output.
fn loopback() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let to = listener.local_addr()?;
    std::thread::spawn(move || serve(&listener));
    let setup = measure(to, "Loopback, one process", Shape::default())?;
    print!("{}", setup.markdown());
    Ok(())
}

/// All series over one link.
fn measure(to: SocketAddr, name: &str, shape: Shape) -> Result<Setup, Box<dyn Error>> {
    // The first connection of all warms up both ends.
    send(to, Pattern::OneAtATime, SIZES[0], 4)?;
    let latency = latency(to)?;
    let mut measured: Vec<(Pattern, Vec<Flight>)> = Vec::new();
    for (pattern, messages) in MESSAGES {
        for bytes in SIZES {
            measured.push((pattern, send(to, pattern, bytes, messages)?));
        }
    }
    let bandwidth = match shape.bits_per_second {
        Some(bits) => goodput(bits),
        None => fitted(&measured),
    };
    let speed = LinkSpeed {
        bytes_per_second: NonZeroU64::new(bandwidth).ok_or("a link that carries nothing")?,
        latency,
    };
    let series = measured.iter();
    let series = series.map(|(pattern, flights)| compare(pattern.name(), speed, flights));
    Ok(Setup {
        name: name.to_owned(),
        bits_per_second: shape.bits_per_second,
        burst_bytes: shape.burst_bytes,
        delay_us: shape.delay_us,
        payload_bytes_per_second: bandwidth,
        latency_us: latency.0 as f64 / 1e3,
        series: series.collect(),
    })
}

/// Half the median time from one small message to the next, each of which waits for an answer.
fn latency(to: SocketAddr) -> Result<Nanos, Box<dyn Error>> {
    let flights = send(to, Pattern::OneAtATime, SMALL, ROUND_TRIPS)?;
    let trips = flights.windows(2);
    let trips: Vec<f64> = trips
        .map(|pair| (pair[1].sent - pair[0].sent) as f64)
        .collect();
    Ok(Nanos((quantile(&trips, 0.5) / 2.0) as u64))
}

/// Bytes a second between the medians of the smallest and the largest messages, one at a time.
fn fitted(measured: &[(Pattern, Vec<Flight>)]) -> u64 {
    let median = |size: u64| {
        let all = measured.iter();
        let of_size = all.filter(|(pattern, _)| *pattern == Pattern::OneAtATime);
        let of_size = of_size
            .flat_map(|(_, flights)| flights)
            .filter(|one| one.bytes == size);
        let times: Vec<f64> = of_size.map(|one| (one.arrived - one.sent) as f64).collect();
        quantile(&times, 0.5)
    };
    let (least, most) = (SIZES[0], SIZES[SIZES.len() - 1]);
    ((most - least) as f64 * 1e9 / (median(most) - median(least))) as u64
}

/// Makes the results of what `send` has printed.
fn report(files: &[&str]) -> Result<(), Box<dyn Error>> {
    let setups = files.iter().map(|file| {
        let text = std::fs::read_to_string(file)?;
        Ok(serde_json::from_str(&text)?)
    });
    let setups: Result<Vec<Setup>, Box<dyn Error>> = setups.collect();
    let results = Results {
        machine: Machine::here(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default(),
        setups: setups?,
    };
    let text = results.markdown();
    print!("{text}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let json = serde_json::to_string_pretty(&results)? + "\n";
    std::fs::write(format!("{folder}/links.json"), json)?;
    std::fs::write(format!("{folder}/links.md"), text)?;
    Ok(())
}
