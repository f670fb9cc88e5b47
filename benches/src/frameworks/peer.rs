//! A child process that runs steps.

use std::io::{BufRead, BufReader, Error, ErrorKind, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a step took and gave.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// By the child's own clock.
    pub seconds: f64,
    /// The batch's mean loss, before the update.
    pub loss: f64,
}

/// A child that waits for its turn.
pub struct Peer {
    /// Its name in the table.
    pub name: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// If there is no such program.
    pub fn start(name: impl Into<String>, command: &mut Command) -> Result<Self, Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || Error::from(ErrorKind::BrokenPipe);
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self {
            name: name.into(),
            child,
            input,
            output,
        })
    }

    /// Has it run one step, and waits.
    ///
    /// # Errors
    ///
    /// If it has ended, or answers something else.
    pub fn step(&mut self) -> Result<Step, Error> {
        writeln!(self.input)?;
        self.input.flush()?;
        let line = self.line()?;
        let numbers: Vec<f64> = line.split(' ').filter_map(|n| n.parse().ok()).collect();
        match numbers[..] {
            [seconds, loss] => Ok(Step { seconds, loss }),
            _ => Err(Error::other(format!("{} answers {line:?}", self.name))),
        }
    }

    /// The next line that it writes.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(Error::other(format!("{} has ended", self.name)));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
