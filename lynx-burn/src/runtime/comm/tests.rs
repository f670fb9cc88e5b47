//! Links by themselves: order, room, instants, and ends of waits.

use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};

use super::emulated::Emulated;
use super::link::{Arrival, Gone, Inlet, Mail, Outlet};
use super::mailbox::{MailboxInlet, MailboxOutlet, StopSignal, mailbox};
use crate::ids::MicroBatchId;

fn stop() -> (Sender<std::convert::Infallible>, StopSignal) {
    bounded(0)
}

fn mail(id: usize, bytes: u64) -> Mail<usize> {
    Mail::new(MicroBatchId(id), bytes, id)
}

fn emulated(
    speed: &str,
    stop: &StopSignal,
) -> (Emulated<MailboxOutlet<usize>>, MailboxInlet<usize>) {
    let (outlet, inlet) = mailbox(8, stop);
    let speed = speed.parse().expect("a speed");
    (Emulated::new(outlet, speed), inlet)
}

/// Waits for the next message; returns it with the instant at which it was there.
fn receive(inlet: &mut MailboxInlet<usize>) -> Result<(Mail<usize>, Instant), Gone> {
    loop {
        match inlet.poll()? {
            Arrival::Here => {
                if let Some(mail) = inlet.take() {
                    return Ok((mail, Instant::now()));
                }
            }
            Arrival::Expected(way) => inlet.wait(Some(way.arrive))?,
            Arrival::Unknown => inlet.wait(None)?,
        }
    }
}

#[test]
fn messages_sent_at_once_are_readable_no_closer_than_the_wire_lets_them() {
    let (_keep, stop) = stop();
    // 10 kB at 1 MB/s: 10 ms on the wire.
    let (mut outlet, mut inlet) = emulated("1MB/s,5ms", &stop);
    let wire = Duration::from_millis(10);
    let sent = Instant::now();
    let ways = [0, 1, 2].map(|id| outlet.put(mail(id, 10_000)).expect("room"));
    assert!(sent.elapsed() < wire, "a send does not wait for the wire");
    for (index, way) in ways.iter().enumerate() {
        assert_eq!(way.left - way.begin, wire);
        assert_eq!(way.arrive - way.left, Duration::from_millis(5));
        if let Some(before) = index.checked_sub(1) {
            assert_eq!(way.begin, ways[before].left, "one message at a time");
        }
    }
    for (id, way) in ways.iter().enumerate() {
        let (mail, at) = receive(&mut inlet).expect("it comes");
        assert_eq!(mail.message, id);
        assert!(at >= way.arrive, "never early");
        let earliest = wire * (id as u32 + 1) + Duration::from_millis(5);
        assert!(at - sent >= earliest, "{:?}", at - sent);
    }
}

#[test]
fn an_idle_link_begins_with_its_next_message() {
    let (_keep, stop) = stop();
    let (mut outlet, mut inlet) = emulated("1GB/s,0ns", &stop);
    let first = outlet.put(mail(0, 1000)).expect("room");
    receive(&mut inlet).expect("it comes");
    std::thread::sleep(Duration::from_millis(1));
    let second = outlet.put(mail(1, 1000)).expect("room");
    assert!(second.begin > first.left);
}

#[test]
fn what_is_known_of_a_message_is_nothing_then_its_way_then_that_it_is_here() {
    let (_keep, stop) = stop();
    let (mut outlet, mut inlet) = emulated("1GB/s,20ms", &stop);
    assert_eq!(inlet.poll(), Ok(Arrival::Unknown));
    let way = outlet.put(mail(0, 0)).expect("room");
    assert_eq!(inlet.poll(), Ok(Arrival::Expected(way)));
    assert!(inlet.take().is_none(), "not before its instant");
    inlet.wait(Some(way.arrive)).expect("nobody is gone");
    while inlet.poll() != Ok(Arrival::Here) {
        inlet.wait(Some(way.arrive)).expect("nobody is gone");
    }
    assert!(Instant::now() >= way.arrive);
    assert_eq!(inlet.take().map(|mail| mail.message), Some(0));
}

#[test]
fn a_mailbox_has_room_for_its_capacity_and_again_after_each_receive() {
    let (_keep, stop) = stop();
    for capacity in [1, 2, 3] {
        let (mut outlet, mut inlet) = mailbox(capacity, &stop);
        for id in 0..capacity {
            assert!(outlet.room().expect("open").is_some());
            outlet.put(mail(id, 0)).expect("open");
        }
        assert_eq!(outlet.room(), Ok(None), "{capacity}");
        let before = Instant::now();
        receive(&mut inlet).expect("it is there");
        let since = outlet.room().expect("open").expect("room again");
        assert!(since >= before);
    }
}

#[test]
fn without_capacity_there_is_room_as_soon_as_the_receiver_has_come_even_if_it_went_away() {
    let (_keep, stop) = stop();
    let (mut outlet, mut inlet) = mailbox(0, &stop);
    assert_eq!(outlet.room(), Ok(None));
    assert_eq!(inlet.poll(), Ok(Arrival::Unknown));
    assert!(outlet.room().expect("open").is_some());
    outlet.put(mail(0, 0)).expect("open");
    assert_eq!(outlet.room(), Ok(None), "one receive, one send");
    receive(&mut inlet).expect("it is there");
    assert_eq!(outlet.room(), Ok(None), "the next receive has not begun");
}

#[test]
fn a_stop_ends_a_wait_for_a_message_that_is_hours_away() {
    for sent in [false, true] {
        let (keep, stop) = stop();
        let (mut outlet, mut inlet) = emulated("1B/s,1000s", &stop);
        if sent {
            outlet.put(mail(0, 100_000)).expect("room");
        }
        let begin = Instant::now();
        let receiver = std::thread::spawn(move || receive(&mut inlet).err());
        std::thread::sleep(Duration::from_millis(20));
        drop(keep);
        assert_eq!(receiver.join().expect("no panic"), Some(Gone));
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn what_was_sent_before_its_sender_went_still_arrives_and_then_no_more() {
    let (_keep, stop) = stop();
    let (mut outlet, mut inlet) = emulated("1GB/s,5ms", &stop);
    outlet.put(mail(7, 10)).expect("room");
    drop(outlet);
    assert_eq!(receive(&mut inlet).expect("it comes").0.message, 7);
    assert_eq!(receive(&mut inlet).err(), Some(Gone));
}

#[test]
fn nobody_sends_to_a_receiver_that_is_gone() {
    let (_keep, stop) = stop();
    let (mut outlet, inlet) = mailbox(0, &stop);
    let sender = std::thread::spawn(move || {
        while outlet.room()?.is_none() {
            outlet.wait()?;
        }
        outlet.put(mail(0, 0))
    });
    drop(inlet);
    assert_eq!(sender.join().expect("no panic").err(), Some(Gone));
}
