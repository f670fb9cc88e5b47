//! Turns, medians and spreads.

use std::{fmt, time::Instant};

use cubecl::{future, ir::ElemType, prelude::Client};

/// A thing to time.
pub(crate) struct Work {
    pub(crate) name: String,
    /// Bytes that it must move.
    pub(crate) bytes: usize,
    /// Floating-point operations, where they are what takes the time.
    pub(crate) flops: Option<usize>,
    pub(crate) run: Box<dyn FnMut()>,
}

/// How long it took.
pub(crate) struct Row {
    name: String,
    dtype: String,
    /// Median over the rounds, in microseconds a launch.
    microseconds: f64,
    /// Quartiles.
    quartiles: [f64; 2],
    /// Bytes that must be moved, over the median: in 10^9 bytes a second.
    gigabytes_per_second: f64,
    /// The same over what the copy reached, median of the ratios within the rounds.
    share_of_copy: f64,
    /// 10^12 operations a second.
    teraflops: Option<f64>,
}

impl Row {
    /// As a JSON object. Written by hand: a serialiser among the kernels' dependencies would change
    /// features of CubeCL's, and have all of it built once more.
    pub(crate) fn json(&self) -> String {
        let teraflops = self
            .teraflops
            .map_or_else(|| "null".to_owned(), |t| t.to_string());
        format!(
            "{{\"name\": {:?}, \"dtype\": {:?}, \"microseconds\": {}, \"quartiles\": {:?}, \
             \"gigabytes_per_second\": {}, \"share_of_copy\": {}, \"teraflops\": {teraflops}}}",
            self.name,
            self.dtype,
            self.microseconds,
            self.quartiles,
            self.gigabytes_per_second,
            self.share_of_copy,
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:5} {:34} {:>10.1} us ({:.1}-{:.1})  {:>8.1} GB/s  {:>6.1} % of copy",
            self.dtype,
            self.name,
            self.microseconds,
            self.quartiles[0],
            self.quartiles[1],
            self.gigabytes_per_second,
            self.share_of_copy * 100.0,
        )?;
        match self.teraflops {
            Some(teraflops) => write!(f, "  {teraflops:.2} TFLOP/s"),
            None => Ok(()),
        }
    }
}

/// Shortest time a turn should take, in seconds: launches are far shorter, and so is the wait.
const TURN: f64 = 0.005;

/// Times everything in `rounds` rounds; the first work is the copy.
pub(crate) fn take_turns(
    client: &Client,
    dtype: ElemType,
    mut all: Vec<Work>,
    rounds: usize,
) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    let mut launches = Vec::new();
    for work in &mut all {
        // The first launch compiles.
        (work.run)();
        future::block_on(client.sync())?;
        let begin = Instant::now();
        (work.run)();
        future::block_on(client.sync())?;
        let once = begin.elapsed().as_secs_f64().max(1e-6);
        launches.push((TURN / once).ceil().clamp(1.0, 1000.0) as usize);
    }
    let mut times = vec![Vec::with_capacity(rounds); all.len()];
    for round in 0..rounds {
        for offset in 0..all.len() {
            let index = (round + offset) % all.len();
            let begin = Instant::now();
            for _ in 0..launches[index] {
                (all[index].run)();
            }
            future::block_on(client.sync())?;
            times[index].push(begin.elapsed().as_secs_f64() / launches[index] as f64);
        }
    }
    let speed = |index: usize, time: f64| all[index].bytes as f64 / time;
    Ok((0..all.len())
        .map(|index| {
            let shares: Vec<f64> = times[index]
                .iter()
                .zip(&times[0])
                .map(|(&own, &copy)| speed(index, own) / speed(0, copy))
                .collect();
            let median = quantile(&times[index], 0.5);
            Row {
                name: all[index].name.clone(),
                dtype: dtype.to_string(),
                microseconds: median * 1e6,
                quartiles: [0.25, 0.75].map(|q| quantile(&times[index], q) * 1e6),
                gigabytes_per_second: speed(index, median) / 1e9,
                share_of_copy: quantile(&shares, 0.5),
                teraflops: all[index].flops.map(|flops| flops as f64 / median / 1e12),
            }
        })
        .collect())
}

/// The value below which a share `q` of `values` lies.
fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}
