//! A policy as one word, the same in files and on the command line:
//! `retain`, `recompute`, `every:2`, `uniform:4`, `selective:attention,gelu`,
//! `hand:KKRRK/RRRK`.
//!
//! The text of every policy reads back as that policy. Hence two rules for odd
//! values: a comma or backslash inside a name is written `\,` or `\\`, and a
//! last item that is empty is followed by one more separator. Whether the
//! policy fits a chain is not known here.

use std::fmt;
use std::str::FromStr;

use super::{Choice, Policy};

/// A text that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParsePolicyError {
    /// The word before the colon, or the only word, is none of ours.
    #[error(
        "{text:?} is not a policy: write retain, recompute, every:2, uniform:4, \
         selective:attention,gelu or hand:KKR/RRK"
    )]
    Unknown {
        /// The whole text.
        text: String,
    },
    /// A number of layers is missing, zero or no number.
    #[error("{number:?} in {text:?} is not a number of layers: it must be 1 or more")]
    Number {
        /// What stands in its place.
        number: String,
        /// The whole text.
        text: String,
    },
    /// A choice by hand is neither kept nor recomputed.
    #[error(
        "{letter:?} in {text:?} is not a choice: write K to keep a tape, R to recompute it, S to \
         recompute it from a kept input of its own, J to replay it jointly with the segment before"
    )]
    Letter {
        /// The letter at fault.
        letter: char,
        /// The whole text.
        text: String,
    },
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RetainAll => f.write_str("retain"),
            Self::RecomputeAll => f.write_str("recompute"),
            Self::EveryKth(k) => write!(f, "every:{k}"),
            Self::Uniform(k) => write!(f, "uniform:{k}"),
            Self::Selective(names) => {
                let escape = |name: &String| name.replace('\\', r"\\").replace(',', r"\,");
                write!(f, "selective:{}", join(names.iter().map(escape), ','))
            }
            Self::ByHand(stages) => {
                write!(f, "hand:{}", join(stages.iter().map(|s| letters(s)), '/'))
            }
        }
    }
}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || ParsePolicyError::Unknown {
            text: text.to_owned(),
        };
        let number = |number: &str| {
            number.parse().map_err(|_| ParsePolicyError::Number {
                number: number.to_owned(),
                text: text.to_owned(),
            })
        };
        let choice = |letter| match letter {
            'K' => Ok(Choice::Retain),
            'R' => Ok(Choice::Recompute),
            'S' => Ok(Choice::Restart),
            'J' => Ok(Choice::Replay),
            letter => Err(ParsePolicyError::Letter {
                letter,
                text: text.to_owned(),
            }),
        };
        match text.split_once(':') {
            None if text == "retain" => Ok(Self::RetainAll),
            None if text == "recompute" => Ok(Self::RecomputeAll),
            Some(("every", k)) => Ok(Self::EveryKth(number(k)?)),
            Some(("uniform", k)) => Ok(Self::Uniform(number(k)?)),
            Some(("selective", names)) => Ok(Self::Selective(split(names, ','))),
            Some(("hand", stages)) => split(stages, '/')
                .iter()
                .map(|stage| stage.chars().map(choice).collect())
                .collect::<Result<_, _>>()
                .map(Self::ByHand),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for Policy {
    type Error = ParsePolicyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> Self {
        policy.to_string()
    }
}

fn letters(choices: &[Choice]) -> String {
    let letter = |choice: &Choice| match choice {
        Choice::Retain => 'K',
        Choice::Recompute => 'R',
        Choice::Restart => 'S',
        Choice::Replay => 'J',
    };
    choices.iter().map(letter).collect()
}

/// The items with `separator` between them, and one more after a last empty
/// item: else a list of one empty item would look like no item.
fn join(items: impl Iterator<Item = String>, separator: char) -> String {
    let items: Vec<_> = items.collect();
    let mut text = items.join(&separator.to_string());
    if items.last().is_some_and(String::is_empty) {
        text.push(separator);
    }
    text
}

/// Undoes [`join`] and the escapes in names.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut items = Vec::new();
    let mut item = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => item.extend(letters.next()),
            letter if letter == separator => items.push(std::mem::take(&mut item)),
            letter => item.push(letter),
        }
    }
    if !item.is_empty() {
        items.push(item);
    }
    items
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::{Choice, ParsePolicyError, Policy};

    fn policies() -> impl Strategy<Value = Policy> {
        let k = || (1usize..100).prop_map(|k| NonZeroUsize::new(k).unwrap());
        use Choice::{Recompute, Replay, Restart, Retain};
        let choice = prop_oneof![Just(Retain), Just(Recompute), Just(Restart), Just(Replay)];
        let name = r#"[a-c,:/\\ "]{0,4}"#;
        prop_oneof![
            Just(Policy::RetainAll),
            Just(Policy::RecomputeAll),
            k().prop_map(Policy::EveryKth),
            k().prop_map(Policy::Uniform),
            prop::collection::vec(name, 0..4).prop_map(Policy::Selective),
            prop::collection::vec(prop::collection::vec(choice, 0..4), 0..4)
                .prop_map(Policy::ByHand),
        ]
    }

    proptest! {
        #[test]
        fn the_text_of_a_policy_reads_back_as_that_policy(policy in policies()) {
            prop_assert_eq!(&policy.to_string().parse::<Policy>().unwrap(), &policy);
            let file = serde_json::to_string(&policy).unwrap();
            prop_assert_eq!(serde_json::from_str::<Policy>(&file).unwrap(), policy);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in r"(selective|hand|every)?:?[KRSJ,/\\0-9]{0,8}") {
            let _ = text.parse::<Policy>();
        }
    }

    #[test]
    fn the_published_examples_are_read() {
        use Choice::{Recompute as R, Retain as K};
        let two = NonZeroUsize::new(2).unwrap();
        let names = ["attention", "gelu"].map(str::to_owned).to_vec();
        let hand = vec![vec![K, K, R, R, K], vec![R, R, R, K]];
        let cases = [
            ("retain", Policy::RetainAll),
            ("recompute", Policy::RecomputeAll),
            ("every:2", Policy::EveryKth(two)),
            ("uniform:2", Policy::Uniform(two)),
            ("selective:attention,gelu", Policy::Selective(names)),
            ("hand:KKRRK/RRRK", Policy::ByHand(hand)),
        ];
        for (text, policy) in cases {
            assert_eq!(text.parse(), Ok(policy), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_part_at_fault() {
        let parse = |text: &str| text.parse::<Policy>().unwrap_err();
        for text in ["", "full", "retain:", "every", "Retain"] {
            assert!(
                matches!(parse(text), ParsePolicyError::Unknown { .. }),
                "{text}"
            );
        }
        for text in ["every:0", "every:", "uniform:-1", "uniform:two"] {
            assert!(
                matches!(parse(text), ParsePolicyError::Number { .. }),
                "{text}"
            );
        }
        let found = parse("hand:KxR");
        assert!(matches!(
            found,
            ParsePolicyError::Letter { letter: 'x', .. }
        ));
    }
}
