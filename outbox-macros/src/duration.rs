//! Durations and rates as texts: `30s`, `100/s`; `1.5h` is none.

use std::time::Duration;

const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 60 * 60 * 1_000_000_000),
];

/// Parses a whole number and a unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!(
            "`{text}` is not a duration; write a whole number and a unit, `ns`, `us`, `ms`, `s`, `m` or `h`, such as `30s`"
        ));
    };
    let nanos = number
        .parse()
        .ok()
        .and_then(|number: u64| number.checked_mul(*nanos));
    match nanos {
        Some(0) => Err(format!(
            "the duration `{text}` is zero; give at least `1ns`"
        )),
        Some(nanos) => Ok(Duration::from_nanos(nanos)),
        None if number.is_empty() => Err(format!(
            "the duration `{text}` has no number; write one such as `30{unit}`"
        )),
        None => Err(format!(
            "the duration `{text}` is too long; at most 584 years are possible"
        )),
    }
}

/// Parses `base..cap`.
pub(crate) fn parse_range(text: &str) -> Result<(Duration, Duration), String> {
    let Some((base, cap)) = text.split_once("..") else {
        return Err(format!(
            "`{text}` is not a range of delays; write the first and the longest, such as `1s..5m`"
        ));
    };
    let (base, cap) = (parse(base)?, parse(cap)?);
    if base > cap {
        return Err(format!(
            "the first delay of `{text}` is longer than the longest; swap them"
        ));
    }
    Ok((base, cap))
}

/// Parses a number of starts and the time that they are spread over, such as `100/s`.
pub(crate) fn parse_rate(text: &str) -> Result<(u32, Duration), String> {
    let Some((number, unit)) = text.split_once('/') else {
        return Err(format!("`{text}` is not a rate; {RATE}"));
    };
    let per = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        _ => return Err(format!("`{unit}` is not a rate's unit; {RATE}")),
    };
    let starts = number
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| number.parse().ok())
        .flatten();
    match starts {
        Some(0) => Err(format!(
            "the rate `{text}` lets nothing start; give at least `1/{unit}`, or pause the topic"
        )),
        Some(starts) => Ok((starts, Duration::from_secs(per))),
        None => Err(format!("`{number}` is not a rate's number; {RATE}")),
    }
}

const RATE: &str =
    "write a whole number up to 4294967295, `/` and a unit, `s`, `m` or `h`, such as `100/s`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_durations() {
        assert_eq!(parse("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("7us"), Ok(Duration::from_micros(7)));
        assert_eq!(parse("1ns"), Ok(Duration::from_nanos(1)));
        assert_eq!(
            parse_range("1s..5m"),
            Ok((Duration::from_secs(1), Duration::from_secs(300)))
        );
    }

    #[test]
    fn numbers_per_time_are_rates() {
        let rate = |starts, secs| Ok((starts, Duration::from_secs(secs)));
        assert_eq!(parse_rate("100/s"), rate(100, 1));
        assert_eq!(parse_rate("1/m"), rate(1, 60));
        assert_eq!(parse_rate("4294967295/h"), rate(u32::MAX, 3_600));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "100",
            "100/",
            "/s",
            "0/s",
            "-1/s",
            "+1/s",
            "1.5/s",
            "1 /s",
            "1/ms",
            "1/s/s",
            "4294967296/s",
        ] {
            assert!(parse_rate(text).is_err(), "{text:?}");
        }
        for text in [
            "",
            "30",
            "s",
            "0s",
            "-1s",
            "1.5s",
            "1 s",
            "5d",
            "99999999999999h",
            "1s ",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        for text in ["1s", "1s..", "..1s", "5m..1s", "1s..5m..9m"] {
            assert!(parse_range(text).is_err(), "{text:?}");
        }
    }
}
