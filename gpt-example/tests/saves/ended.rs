//! Runs that are ended from outside.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::common::{gpt, metrics, number, said};
use super::{TINY, course, saves};

/// Starts a run and waits until it has said a line that begins so.
fn begin(folder: &Path, arguments: &str, line: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpt"))
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let said = BufReader::new(child.stdout.as_mut().expect("piped"));
    let found = said
        .lines()
        .map_while(Result::ok)
        .any(|said| said.starts_with(line));
    assert!(found, "it ended without saying {line:?}");
    child
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_step_saves_and_says_how_to_go_on() {
    for name in ["INT", "TERM"] {
        let folder = tempfile::tempdir().expect("a folder");
        let run = format!("{TINY} --steps 100000 --out run");
        let mut child = begin(folder.path(), &run, "step     3");
        let output = child.stdout.take().expect("piped");
        signal(&child, name);
        let last = BufReader::new(output).lines().map_while(Result::ok).last();
        let last = last.expect("a last word");
        assert!(child.wait().expect("ended").success(), "{last}");
        assert!(last.contains("gpt train --resume run"), "{last}");
        let run = folder.path().join("run");
        let records = metrics(&run);
        let taken = number(records.last().expect("some"), "step");
        assert!(last.contains(&format!("after step {taken},")), "{last}");
        let [save] = &saves(&run)[..] else {
            panic!("one save, not {:?}", saves(&run));
        };
        assert!(save.ends_with(format!("000001-step-{taken}")));
        let more = format!("--resume run --steps {}", taken + 2.0);
        said(&gpt(folder.path(), &more));
        assert_eq!(metrics(&run).len() as f64, taken + 2.0);
    }
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_the_run_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // A step of minutes.
    let run = "--layers 8 --width 512 --heads 8 --context 256 --batch 64 --stages 1 --out run";
    let mut child = begin(folder.path(), run, "run ");
    while child.try_wait().expect("asked").is_none() {
        signal(&child, "INT");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    assert!(!folder.path().join("run/saves").exists());
}

#[test]
fn a_run_killed_again_and_again_ends_as_an_unbroken_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = format!("{TINY} --steps 60 --save-every 1 --eval-every 10");
    said(&gpt(folder.path(), &format!("{run} --out whole")));
    let broken = folder.path().join("broken");
    let (mut kills, mut done) = (0u64, false);
    while !done {
        let begun = broken.join("saves").is_dir() && !saves(&broken).is_empty();
        if begun
            && saves(&broken)
                .iter()
                .any(|save| save.to_string_lossy().ends_with("step-60"))
        {
            // Killed after the last step was saved: there is nothing to go on with.
            break;
        }
        let arguments = match begun {
            true => "--resume broken".to_owned(),
            false => format!("{run} --out broken"),
        };
        let mut child = begin(folder.path(), &arguments, "step ");
        // A second line means a step taken, a third one that the step has been saved.
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let lines = 2 + kills as usize % 3;
        let before = Instant::now();
        let said = output
            .map_while(Result::ok)
            .filter(|line| line.starts_with("step "));
        let enough = said.take(lines).count() == lines;
        let each = before.elapsed() / lines as u32;
        if enough {
            std::thread::sleep(each * (kills * 7919 % 1000) as u32 / 1000);
            child.kill().expect("killed, or over");
        }
        done = child.wait().expect("ended").success();
        kills += u64::from(!done);
    }
    assert!(kills >= 3, "{kills} kills");
    assert_eq!(course(&broken), course(&folder.path().join("whole")));
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_one_line_and_leaves_the_saves_before_it_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    said(&gpt(place, &format!("{TINY} --steps 3 --out run")));
    let before = saves(&place.join("run"));
    // No file may be larger than 64 KiB, which the weights are.
    let program = env!("CARGO_BIN_EXE_gpt");
    let limited = format!("trap '' XFSZ; ulimit -f 64; exec {program} --resume run --steps 5");
    let output = Command::new("bash")
        .current_dir(place)
        .args(["-c", &limited])
        .output()
        .expect("bash is there");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("weights.safetensors"), "{error}");
    assert_eq!(saves(&place.join("run")), before);
    said(&gpt(place, "--resume run --steps 5"));
}
