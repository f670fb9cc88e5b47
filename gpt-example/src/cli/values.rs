//! Values on the command line that have no type of their own elsewhere.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser};
use lynx_burn::plan::cluster::Window;
use lynx_burn::plan::planner::Strategy;
use lynx_burn::units::Bytes;

use crate::config::LARGEST;
use crate::tokenizer::VOCABULARY;

/// A number of things that there is at least one of.
pub(super) fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=LARGEST as u64)
}

/// A number of tokens with room for every byte.
pub(super) fn vocabulary() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(VOCABULARY as u64..=LARGEST as u64)
}

/// The name of a strategy.
pub(super) fn strategy() -> PossibleValuesParser {
    let all = Strategy::all(Duration::ZERO).into_iter();
    let all = all.map(|strategy| PossibleValue::new(strategy.name()).help(strategy.about()));
    PossibleValuesParser::new(all)
}

/// Memory that a device has.
pub(super) fn budget(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    match bytes {
        Bytes(0) => Err("nothing fits into 0 bytes".to_owned()),
        some => Ok(some),
    }
}

/// The windows that a planner may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows(pub Vec<Window>);

/// Windows by name, `all` or `none`.
pub(super) fn windows(text: &str) -> Result<Windows, String> {
    let named = |name: &str| {
        let mut all = Window::ALL.into_iter();
        let found = all.find(|window| window.to_string().eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| {
            let known = Window::ALL.map(|window| window.to_string()).join(", ");
            format!("no window is named {name:?}; there are {known}, and all or none of them")
        })
    };
    match text {
        "all" => Ok(Windows(Window::ALL.to_vec())),
        "none" => Ok(Windows(Vec::new())),
        _ => text
            .split(',')
            .map(named)
            .collect::<Result<_, _>>()
            .map(Windows),
    }
}

/// A span of time: `10s`, `500ms`, `2min`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 3] = [("min", 60.0), ("ms", 1e-3), ("s", 1.0)];
    let refused = || format!("{text:?} is no span of time: write it like 10s, 500ms or 2min");
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
        .ok_or_else(refused)?;
    let number: f64 = number.trim_end().parse().map_err(|_| refused())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_are_read_with_their_unit() {
        let cases = [
            ("10s", 10_000),
            ("500ms", 500),
            ("2min", 120_000),
            ("0.5 s", 500),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1e300min", "NaNs", "1h"] {
            assert!(duration(text).is_err_and(|e| e.contains(text)), "{text}");
        }
    }

    #[test]
    fn windows_are_read_by_name_in_any_case() {
        let some = Windows(vec![Window::F1, Window::Bubble]);
        assert_eq!(windows("f1,BUBBLE"), Ok(some));
        assert_eq!(windows("none"), Ok(Windows(Vec::new())));
        assert_eq!(windows("all"), Ok(Windows(Window::ALL.to_vec())));
        let error = windows("F1,F3").expect_err("no such window");
        assert!(
            error.contains("\"F3\"") && error.contains("SEND"),
            "{error}"
        );
    }

    #[test]
    fn a_budget_of_nothing_is_refused() {
        assert_eq!(budget("38GiB"), Ok(Bytes(38 << 30)));
        assert!(budget("0MiB").is_err_and(|error| error.contains("0 bytes")));
        assert!(budget("much").is_err_and(|error| error.contains("much")));
    }
}
