//! Model and wire as a table.

use serde::{Deserialize, Serialize};

use super::model::Series;
use crate::machine::Machine;
use crate::rounds::quantile;

/// A link and what was measured on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// For a heading.
    pub name: String,
    /// What it is shaped to; nothing if it is not.
    pub bits_per_second: Option<u64>,
    /// What the token bucket lets pass at once, in bytes.
    pub burst_bytes: Option<u64>,
    /// What was added to the way by `netem`, in microseconds; nothing where the kernel has none.
    pub delay_us: Option<u64>,
    /// Of the model: derived from the bits a second and framing, or fitted where there are none.
    pub payload_bytes_per_second: u64,
    /// Of the model: half the median round trip of small messages, in microseconds.
    pub latency_us: f64,
    /// The series.
    pub series: Vec<Series>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Where.
    pub machine: Machine,
    /// The kernel whose network stack it was.
    pub kernel: String,
    /// The links.
    pub setups: Vec<Setup>,
}

impl Results {
    /// For a person.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# The emulated link beside a real one\n\nMeasured on: {}; kernel {}. Messages over TCP \
             (no delay, cubic) between two processes on one clock, both put before all \
             others on the cores where `chrt` allows. The model is the emulated link's: a message begins when the link is free, occupies it for its bytes over the bandwidth, \
             and arrives a latency later. Errors are the wire's arrival less the model's; \"whole\" is \
             the time from the first send to the last arrival, wire over model.\n",
            self.machine.line(),
            self.kernel.trim(),
        );
        for setup in &self.setups {
            text += &setup.markdown();
        }
        text + &self.where_they_part()
    }

    /// What of a wire the model leaves out, with what that came to here.
    fn where_they_part(&self) -> String {
        let shaped = |least: u64| -> Vec<f64> {
            let setups = self.setups.iter();
            let setups = setups.filter(|setup| setup.bits_per_second.is_some());
            let series = setups.flat_map(|setup| &setup.series);
            let series = series.filter(|one| one.bytes >= least);
            series.map(|one| one.whole_ratio).collect()
        };
        let range = |ratios: &[f64]| {
            let (least, most) = (quantile(ratios, 0.0), quantile(ratios, 1.0));
            let median = quantile(ratios, 0.5);
            format!("{least:.3} to {most:.3}, median {median:.3}")
        };
        let mut text = format!(
            "\n## Where model and wire part\n\nOver the shaped links a series took {} of the model's \
             time; of messages of 1 MiB and more, {}.\n\n\
             - Burst: a bucket that filled while the link was idle lets so much pass at once, so single \
             messages are early by nearly what the burst is worth. The model has no bucket.\n\
             - Hiccups: the kernel moves frames when it gets a core. Where other programs hold all of \
             them, the bucket runs over and that time is lost; messages behind are late by as much, up to \
             the end of the series: the likely origin of the largest errors.\n\
             - Slow start: a new connection sends no faster than its answers come back. ",
            range(&shaped(0)),
            range(&shaped(1 << 20)),
        );
        let delayed = self.setups.iter().any(|setup| setup.delay_us.is_some());
        text += match delayed {
            true => "Rows \"new connections\" show what that costs beside a delay.\n",
            false => {
                "This kernel has no `netem`, so there was no delay beside the devices' own, after which \
                 they come back at once: nothing of it shows, and latency was checked no further than \
                 that. Over a long way a training step would keep its connections, but an idle one may \
                 have to start slowly again.\n"
            }
        };
        text + "- Framing is in the bandwidth: 66 of 1514 bytes. What a real wire adds beyond what `tc` \
             counts (preamble, checksum, gap: 24 bytes a frame) is not.\n"
    }
}

impl Setup {
    /// A heading, the model's figures, and the table.
    pub fn markdown(&self) -> String {
        let megabytes = self.payload_bytes_per_second as f64 / 1e6;
        let origin = match (self.bits_per_second, self.burst_bytes) {
            (Some(bits), Some(burst)) => format!(
                "`tc tbf` at {} Mbit/s, burst {burst} bytes, {}. Bandwidth of the model: {megabytes:.2} MB/s \
                 of payload, derived: 1448 of 1514 bytes of a frame. A link that has been idle lets the \
                 burst pass at once, which is worth {:.2} ms",
                bits / 1_000_000,
                match self.delay_us {
                    Some(delay) => format!("`netem` {delay} us each way"),
                    None => "no delay added".to_owned(),
                },
                burst as f64 * 8e3 / bits as f64,
            ),
            _ => format!(
                "Not shaped. Bandwidth of the model: {megabytes:.0} MB/s, fitted to the \"one at a time\" \
                 series of the smallest and the largest size: what is compared is the form, not the figure"
            ),
        };
        let mut text = format!(
            "\n## {}\n\n{origin}. Latency: {:.0} us, half the median round trip of small messages.\n\n\
             | messages | size | model, median | wire, median | error, median | error, largest | whole |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n",
            self.name, self.latency_us,
        );
        for one in &self.series {
            text += &format!(
                "| {} {} | {} KiB | {:.2} ms | {:.2} ms | {:+.2} ms ({:+.1} %) | {:+.2} ms | {:.3} |\n",
                one.messages,
                one.pattern,
                one.bytes >> 10,
                one.model_ms_median,
                one.wire_ms_median,
                one.error_ms_median,
                one.error_ms_median / one.model_ms_median * 100.0,
                one.error_ms_largest,
                one.whole_ratio,
            );
        }
        text
    }
}
