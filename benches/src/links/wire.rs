//! Messages over TCP, with the instants at which they were sent and completely received.
//!
//! Both ends are on one machine and read one clock, the system's. A message begins with its length
//! and whether it is to be answered; at the end of a series the receiver returns the instants.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{SystemTime, UNIX_EPOCH};

/// Eight bytes of length, of which the highest bit asks for an answer.
const HEADER: usize = 8;
const ANSWER: u64 = 1 << 63;
/// Bytes that are read or written at once.
const CHUNK: usize = 1 << 16;

/// In which way a series of messages follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// As fast as the connection takes them.
    BackToBack,
    /// The next when the one before was answered.
    OneAtATime,
    /// Each on a connection of its own, which has to learn how fast it may be.
    NewConnection,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// With its header.
    pub bytes: u64,
    /// The first byte is about to be handed to the system, in nanoseconds since 1970.
    pub sent: u64,
    /// The last byte was read.
    pub arrived: u64,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BackToBack, Self::OneAtATime, Self::NewConnection];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::BackToBack => "back to back",
            Self::OneAtATime => "one at a time",
            Self::NewConnection => "new connections",
        }
    }
}

fn now() -> io::Result<u64> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = time.map_err(io::Error::other)?.as_nanos();
    u64::try_from(nanos).map_err(io::Error::other)
}

/// Receives until the sender says that it was the last message of the series, connection by
/// connection, without end.
///
/// # Errors
///
/// If the system refuses.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        receive(stream)?;
    }
}

fn receive(mut stream: TcpStream) -> io::Result<()> {
    let mut arrivals = Vec::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let mut header = [0; HEADER];
        stream.read_exact(&mut header)?;
        let header = u64::from_le_bytes(header);
        let mut left = (header & !ANSWER).saturating_sub(HEADER as u64);
        if header == 0 {
            let bytes: Vec<u8> = arrivals
                .iter()
                .flat_map(|at: &u64| at.to_le_bytes())
                .collect();
            return stream.write_all(&bytes);
        }
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(CHUNK));
            let read = stream.read(&mut buffer[..most])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= read as u64;
        }
        arrivals.push(now()?);
        if header & ANSWER != 0 {
            stream.write_all(&[1])?;
        }
    }
}

/// Sends `count` messages of `bytes` each.
///
/// # Errors
///
/// If the system or the receiver refuses.
pub fn send(
    to: impl ToSocketAddrs + Copy,
    pattern: Pattern,
    bytes: u64,
    count: usize,
) -> io::Result<Vec<Flight>> {
    match pattern {
        Pattern::NewConnection => {
            let each = (0..count).map(|_| series(to, Pattern::BackToBack, bytes, 1));
            let flights: io::Result<Vec<_>> = each.collect();
            Ok(flights?.concat())
        }
        _ => series(to, pattern, bytes, count),
    }
}

fn series(
    to: impl ToSocketAddrs,
    pattern: Pattern,
    bytes: u64,
    count: usize,
) -> io::Result<Vec<Flight>> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let answered = pattern == Pattern::OneAtATime;
    let header = bytes | if answered { ANSWER } else { 0 };
    let mut message = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    message[..HEADER].copy_from_slice(&header.to_le_bytes());
    let mut sent = Vec::with_capacity(count);
    for _ in 0..count {
        sent.push(now()?);
        stream.write_all(&message)?;
        if answered {
            stream.read_exact(&mut [0])?;
        }
    }
    stream.write_all(&0_u64.to_le_bytes())?;
    let mut arrivals = vec![0; count * HEADER];
    stream.read_exact(&mut arrivals)?;
    let arrivals = arrivals.chunks_exact(HEADER).map(|at| {
        at.iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    });
    let flights = sent.into_iter().zip(arrivals);
    let flights = flights.map(|(sent, arrived)| Flight {
        bytes,
        sent,
        arrived,
    });
    Ok(flights.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_after_it_was_sent_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("an address");
        std::thread::spawn(move || serve(&listener));
        for pattern in Pattern::ALL {
            let flights = send(to, pattern, 100_000, 5).expect("loopback");
            assert_eq!(flights.len(), 5);
            assert!(flights.iter().all(|one| one.bytes == 100_000));
            assert!(
                flights.iter().all(|one| one.sent < one.arrived),
                "{flights:?}"
            );
            for pair in flights.windows(2) {
                assert!(pair[0].arrived <= pair[1].arrived, "{pair:?}");
                let waited = pair[0].arrived <= pair[1].sent;
                assert!(waited || pattern == Pattern::BackToBack, "{pair:?}");
            }
        }
    }
}
