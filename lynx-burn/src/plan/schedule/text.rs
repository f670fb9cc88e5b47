//! A schedule as text that a person can read, diff and edit:
//!
//! ```text
//! schedule p=2 m=2
//! stage 0: F0 SF0 F1 SF1 RB0 B0 RB1 B1
//! stage 1: RF0 F0 B0 SB0 RF1 F1 B1 SB1  # the rest of a line is a comment
//! ```
//!
//! F and B are forwards and backwards, I and W the two parts of a split backward,
//! SF, RF, SB and RB send and receive boundaries and their gradients, G reduces
//! the gradients of weights over replicas once the last micro-batch is through.
//! `F3` concerns micro-batch 3 and `F3.1` chunk 1 of the stage; where stages hold
//! more than one chunk, `v=2` in the first line says how many.
//!
//! Reading checks the form only; whether the schedule is sound is for
//! [`validate()`](super::validate()) to say.

use std::fmt;
use std::str::FromStr;

use super::{Action, Schedule};

/// A text that is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found {found:?}")]
pub struct ParseScheduleError {
    /// The line at fault, counted from 1.
    pub line: usize,
    /// What should stand there.
    pub expected: String,
    /// The word that stands there; empty where the line or the text ends.
    pub found: String,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "schedule p={} m={}",
            self.stages.len(),
            self.micro_batches
        )?;
        if self.chunks != 1 {
            write!(f, " v={}", self.chunks)?;
        }
        for (stage, actions) in self.stages.iter().enumerate() {
            let gap = if actions.is_empty() { "" } else { " " };
            write!(f, "\nstage {stage}:{gap}{}", words(actions))?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = ParseScheduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut lines = text.lines().enumerate().filter_map(|(index, line)| {
            let words = line.split('#').next().unwrap_or(line).split_whitespace();
            let line = index + 1;
            words.clone().next().map(|_| Line { line, words })
        });
        // Where to point when the text ends too early.
        let end = || Line {
            line: text.lines().count() + 1,
            words: "".split_whitespace(),
        };
        let mut header = lines.next().unwrap_or_else(end);
        header.exactly("schedule")?;
        let stage_count = header.number("p=")?;
        let micro_batches = header.number("m=")?;
        let more = header.words.clone().next();
        let chunks = match more.is_some_and(|word| word.starts_with("v=")) {
            true => header.number("v=")?,
            false => 1,
        };
        header.nothing_more()?;
        let mut stages = Vec::new();
        // The count is not trusted: a missing line ends this, however large it is.
        while stages.len() < stage_count {
            let mut line = lines.next().unwrap_or_else(end);
            line.exactly("stage")?;
            line.exactly(&format!("{}:", stages.len()))?;
            stages.push(line.actions()?);
        }
        lines
            .next()
            .map_or(Ok(()), |mut line| line.nothing_more())?;
        Ok(Self {
            micro_batches,
            chunks,
            stages,
        })
    }
}

/// The words of a line that are not read yet; comments are gone.
struct Line<'a> {
    line: usize,
    words: std::str::SplitWhitespace<'a>,
}

impl Line<'_> {
    fn refuse<T>(&self, expected: &str, found: &str) -> Result<T, ParseScheduleError> {
        Err(ParseScheduleError {
            line: self.line,
            expected: expected.to_owned(),
            found: found.to_owned(),
        })
    }

    fn exactly(&mut self, expected: &str) -> Result<(), ParseScheduleError> {
        match self.words.next().unwrap_or_default() {
            found if found == expected => Ok(()),
            found => self.refuse(expected, found),
        }
    }

    fn number(&mut self, name: &str) -> Result<usize, ParseScheduleError> {
        let found = self.words.next().unwrap_or_default();
        match found.strip_prefix(name).map(str::parse) {
            Some(Ok(number)) => Ok(number),
            _ => self.refuse(&format!("{name} and a number"), found),
        }
    }

    fn actions(&mut self) -> Result<Vec<Action>, ParseScheduleError> {
        let mut actions = Vec::new();
        while let Some(found) = self.words.next() {
            match found.parse() {
                Ok(action) => actions.push(action),
                Err(_) => return self.refuse("an action such as F3, B3, SF3, RB3 or F3.1", found),
            }
        }
        Ok(actions)
    }

    fn nothing_more(&mut self) -> Result<(), ParseScheduleError> {
        match self.words.next() {
            Some(found) => self.refuse("nothing more", found),
            None => Ok(()),
        }
    }
}

fn words(actions: &[Action]) -> String {
    let words: Vec<_> = actions.iter().map(Action::to_string).collect();
    words.join(" ")
}

/// Actions in files of other formats: one line of words per stage.
pub(super) mod lines {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use super::{Action, words};

    pub(in super::super) fn serialize<S: Serializer>(
        stages: &[Vec<Action>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let lines: Vec<_> = stages.iter().map(|actions| words(actions)).collect();
        lines.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<Action>>, D::Error> {
        let lines = Vec::<String>::deserialize(deserializer)?;
        let read = |line: &String| line.split_whitespace().map(str::parse).collect();
        let stages: Result<_, _> = lines.iter().map(read).collect();
        stages.map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
