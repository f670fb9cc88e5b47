//! `gpt train --tui` on a terminal and elsewhere. The terminal is that of util-linux's `script`.
#![cfg(all(feature = "tui", target_os = "linux"))]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{gpt, metrics, refused, said};

const TINY: &str = "--layers 2 --width 32 --heads 2 --context 16 --batch 4 --micro-batches 2 \
                    --warmup 2 --eval-every 5 --eval-batches 2 --sample 0";

/// Longer than any of this takes; a test that hangs fails.
const LIMIT: Duration = Duration::from_secs(100);

/// The program on a terminal, and a person before it.
struct Screen {
    script: Child,
    seen: String,
    bytes: Receiver<Vec<u8>>,
    begin: Instant,
}

impl Screen {
    fn new(folder: &Path, arguments: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_gpt");
        // A terminal of a size in which everything has its place.
        let command = format!("stty cols 150 rows 45; exec {program} {arguments}");
        let mut script = Command::new("script")
            .current_dir(folder)
            .env("TERM", "xterm-256color")
            .args(["-qefc", &command, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script is a part of every Linux");
        let mut output = script.stdout.take().expect("piped");
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut part) {
                if sender.send(part[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            script,
            seen: String::new(),
            bytes,
            begin: Instant::now(),
        }
    }

    /// Waits until a word is on the screen, or was.
    fn wait_for(&mut self, word: &str) {
        self.wait_until(word, |seen| seen.contains(word));
    }

    /// Waits until something is so, looking whenever the screen changes.
    fn wait_until(&mut self, name: &str, so: impl Fn(&str) -> bool) {
        while !so(&self.seen) {
            let left = LIMIT.saturating_sub(self.begin.elapsed());
            let Ok(bytes) = self.bytes.recv_timeout(left) else {
                panic!(
                    "no {name:?} after {:?}: {}",
                    self.begin.elapsed(),
                    self.seen
                );
            };
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    fn press(&mut self, key: char) {
        let keys = self.script.stdin.as_mut().expect("piped");
        keys.write_all(key.to_string().as_bytes()).expect("pressed");
        keys.flush().expect("pressed");
    }

    /// The exit code, and all that was on the screen.
    fn end(mut self) -> (Option<i32>, String) {
        loop {
            let left = LIMIT.saturating_sub(self.begin.elapsed());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(_) => panic!("it does not end: {}", self.seen),
            }
        }
        let status = self.script.wait().expect("it ended");
        (status.code(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.script.kill();
    }
}

/// What the program says after its dashboard has given the terminal back.
fn after_the_dashboard(seen: &str) -> &str {
    let (_, rest) = seen.rsplit_once("\x1b[?1049l").expect("the usual screen");
    rest
}

#[test]
fn stopping_in_the_dashboard_saves_and_the_run_can_be_gone_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut screen = Screen::new(
        folder.path(),
        &format!("train {TINY} --steps 1000000 --tui --out run"),
    );
    screen.wait_for("Status");
    for shown in ["Loss", "Speed", "Hidden", "stage 0"] {
        screen.wait_for(shown);
    }
    screen.press('q');
    screen.wait_for("Cancel");
    screen.press('s');
    let (code, seen) = screen.end();
    assert_eq!(code, Some(0), "{seen}");
    let last = after_the_dashboard(&seen);
    assert!(last.contains("interrupted after step"), "{last}");
    assert!(last.contains("gpt train --resume run"), "{last}");
    let taken = last.split("after step ").nth(1).expect("a step");
    let taken: u64 = taken
        .split(',')
        .next()
        .expect("a step")
        .parse()
        .expect("a number");
    let text = said(&gpt(
        folder.path(),
        &format!("--resume run --steps {}", taken + 2),
    ));
    assert!(text.contains(&format!("after step {taken}")), "{text}");
}

#[test]
fn a_run_that_ends_gives_the_terminal_back_and_has_its_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let screen = Screen::new(
        folder.path(),
        &format!("train {TINY} --steps 12 --tui --out run"),
    );
    let (code, seen) = screen.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("\x1b[?1049h"), "{seen}");
    let last = after_the_dashboard(&seen);
    for line in ["step     5  loss", "step    12  loss", "validation loss"] {
        assert!(last.contains(line), "{line}: {last}");
    }
    assert_eq!(metrics(&folder.path().join("run")).len(), 4);
}

#[test]
fn killing_in_the_dashboard_ends_at_once_and_leaves_a_usable_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut screen = Screen::new(
        folder.path(),
        &format!("train {TINY} --steps 1000000 --tui --out run"),
    );
    screen.wait_for("Status");
    let metrics = folder.path().join("run/metrics.jsonl");
    screen.wait_until("evaluation", |_| {
        fs::read_to_string(&metrics).is_ok_and(|text| text.lines().count() > 1)
    });
    screen.press('q');
    screen.wait_for("Cancel");
    screen.press('k');
    let (code, seen) = screen.end();
    assert_eq!(code, Some(130), "{seen}");
    let last = after_the_dashboard(&seen);
    assert!(last.contains("ended from the dashboard"), "{last}");
    assert!(
        last.contains("step     5  loss"),
        "what was said behind it: {last}"
    );
    assert!(!last.contains("panicked"), "{last}");
    assert!(last.contains("\x1b[?25h"), "the cursor is back: {last:?}");
}

#[test]
fn without_a_terminal_one_line_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    refused(folder.path(), "train --tui", "--tui needs a terminal");
    assert!(!folder.path().join("runs").exists());
}
