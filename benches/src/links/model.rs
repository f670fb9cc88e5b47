//! When the emulated link would have let each message arrive, and how far the wire was from it.

use lynx_burn::LinkSpeed;
use serde::{Deserialize, Serialize};

use super::wire::Flight;
use crate::rounds::quantile;

/// TCP payload of a full frame: 1500 bytes less 20 of IPv4, 20 of TCP and 12 of its timestamps.
const PAYLOAD: u64 = 1448;
/// The same frame as `tc` counts it: with 14 bytes of Ethernet's header, without what a real wire
/// adds before and behind it.
const FRAME: u64 = 1514;

/// A series of messages against the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// How messages followed each other.
    pub pattern: String,
    /// Of each message.
    pub bytes: u64,
    /// How many.
    pub messages: usize,
    /// From send to arrival as the model has it, median, in milliseconds.
    pub model_ms_median: f64,
    /// The same measured.
    pub wire_ms_median: f64,
    /// Measured less model, median, in milliseconds: negative where the wire was earlier.
    pub error_ms_median: f64,
    /// The error that lies farthest from zero, in milliseconds.
    pub error_ms_largest: f64,
    /// Measured over model, from the first send to the last arrival.
    pub whole_ratio: f64,
}

/// Payload bytes a second of a link that is shaped to so many bits a second, derived from framing.
pub fn goodput(bits_per_second: u64) -> u64 {
    bits_per_second / 8 * PAYLOAD / FRAME
}

/// When each message arrives: it begins when the link is free, occupies it for its bytes over the
/// bandwidth, and arrives a latency later. Sent messages ascend.
pub fn arrivals(speed: LinkSpeed, flights: &[Flight]) -> Vec<u64> {
    let mut free = 0;
    let each = flights.iter().map(|flight| {
        let begin = flight.sent.max(free);
        free = begin + speed.wire_time(flight.bytes).0;
        free + speed.latency.0
    });
    each.collect()
}

/// Compares a series of at least one message.
pub fn compare(pattern: &str, speed: LinkSpeed, flights: &[Flight]) -> Series {
    let model = arrivals(speed, flights);
    let ms = |from: u64, to: u64| (to as f64 - from as f64) / 1e6;
    let each = |of: &dyn Fn(&Flight, u64) -> f64| -> Vec<f64> {
        let pairs = flights.iter().zip(&model);
        pairs.map(|(flight, &model)| of(flight, model)).collect()
    };
    let errors = each(&|flight, model| ms(model, flight.arrived));
    let largest = errors.iter().copied();
    let largest = largest.max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let whole = |last: Option<u64>| match (flights.first(), last) {
        (Some(first), Some(last)) => ms(first.sent, last),
        _ => f64::NAN,
    };
    let wire = whole(flights.last().map(|last| last.arrived));
    Series {
        pattern: pattern.to_owned(),
        bytes: flights.first().map_or(0, |flight| flight.bytes),
        messages: flights.len(),
        model_ms_median: quantile(&each(&|flight, model| ms(flight.sent, model)), 0.5),
        wire_ms_median: quantile(&each(&|flight, _| ms(flight.sent, flight.arrived)), 0.5),
        error_ms_median: quantile(&errors, 0.5),
        error_ms_largest: largest.unwrap_or(f64::NAN),
        whole_ratio: wire / whole(model.last().copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(bytes: u64, sent: u64, arrived: u64) -> Flight {
        Flight {
            bytes,
            sent,
            arrived,
        }
    }

    #[test]
    fn a_message_waits_for_the_one_before_and_its_latency_holds_up_nobody() {
        // A byte a nanosecond; 50 ns of latency.
        let speed = "1GB/s,50ns".parse().expect("a speed");
        let flights = [
            flight(100, 0, 150),
            flight(30, 10, 175),
            flight(30, 500, 590),
        ];
        assert_eq!(arrivals(speed, &flights), [150, 180, 580]);
        let found = compare("by hand", speed, &flights);
        assert_eq!(found.model_ms_median, 150e-6);
        assert_eq!(found.wire_ms_median, 150e-6);
        assert_eq!(found.error_ms_median, 0.0);
        assert_eq!(found.error_ms_largest, 10e-6);
        assert!((found.whole_ratio - 590.0 / 580.0).abs() < 1e-12);
    }

    #[test]
    fn headers_take_their_share_of_the_bits() {
        // 12.5 MB/s, of which 66 of 1514 bytes are headers.
        assert_eq!(goodput(100_000_000), 11_955_085);
    }
}
