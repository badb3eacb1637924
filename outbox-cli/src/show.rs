//! What is printed: tables, ages, times, and texts that can't harm a terminal.

use std::{
    io::{self, Write as _},
    time::{Duration, SystemTime},
};

use comfy_table::{ContentArrangement, Table, presets};

use crate::failure::Failure;

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Says how something went, to people.
pub(crate) fn tell(text: &str) {
    // Nobody may be there to hear it.
    let _ = writeln!(io::stderr(), "{}", safe(text));
}

/// Columns under a bold header.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| safe(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let bold = anstyle::Style::new().bold();
    let mut text = String::new();
    for (n, line) in table.lines().enumerate() {
        let line = line.trim_end();
        match n {
            0 => text.push_str(&format!("{bold}{line}{bold:#}\n")),
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

/// A text with what steers a terminal, or turns the direction of writing, written out.
pub(crate) fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            c if steers(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

/// As [`safe`], for JSON, which stays the same JSON.
pub(crate) fn safe_json(json: &str) -> String {
    if serde_json::from_str::<serde::de::IgnoredAny>(json).is_err() {
        return safe(json);
    }
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // Space between its parts: in its strings these are escaped.
            '\n' | '\t' => safe.push(c),
            '\r' => {}
            // All of them have four digits or less.
            c if steers(c) => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
}

fn steers(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// Prints a result for programs.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&safe_json(&value.to_string()))
}

/// A word as a shell takes it: topics are plain ones, but plain SQL can write any.
pub(crate) fn word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if word.chars().all(plain) {
        return word.to_owned();
    }
    safe(&format!("'{}'", word.replace('\'', "'\\''")))
}

/// The beginning of a long text, for a cell of a table.
pub(crate) fn short(text: &str) -> String {
    cut(text, 80)
}

/// The first characters of a text that has more.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// A length of time, in its two largest units.
pub(crate) fn age(age: Duration) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let mut left = age.as_secs();
    let mut text = String::new();
    let first = UNITS
        .iter()
        .position(|(_, unit)| left >= *unit)
        .unwrap_or(3);
    for (name, unit) in UNITS.iter().skip(first).take(2) {
        if !text.is_empty() && left < *unit {
            break;
        }
        text.push_str(&format!("{}{name}", left / unit));
        left %= unit;
    }
    text
}

/// How long ago a time was.
pub(crate) fn ago(time: SystemTime) -> String {
    age(SystemTime::now().duration_since(time).unwrap_or_default())
}

/// A time, in UTC.
pub(crate) fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// So many messages, in words.
pub(crate) fn messages(count: u64) -> String {
    counted(count, "message")
}

/// So many of a thing, in words.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{} {thing}s", thousands(count)),
    }
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_their_two_largest_units() {
        let cases = [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (61, "1m1s"),
            (3_600, "1h"),
            (3_661, "1h1m"),
            (86_400 * 3 + 7_200, "3d2h"),
            (86_400 + 59, "1d"),
        ];
        for (secs, text) in cases {
            assert_eq!(age(Duration::from_secs(secs)), text);
        }
    }

    #[test]
    fn a_text_can_not_steer_a_terminal() {
        assert_eq!(safe("a\u{1b}[31mred"), "a\\u{1b}[31mred");
        assert_eq!(safe("two\nlines\r\t"), "two\\nlines\\u{d}\\u{9}");
        assert_eq!(safe("\u{202e}gnp.exe"), "\\u{202e}gnp.exe");
        assert_eq!(safe("grüße, 日本"), "grüße, 日本");
    }

    #[test]
    fn a_shell_takes_a_word_as_one() {
        assert_eq!(word("orders.placed"), "orders.placed");
        assert_eq!(word("x; rm -r ~"), "'x; rm -r ~'");
        assert_eq!(word("a'b\u{1b}"), "'a'\\''b\\u{1b}'");
    }

    #[test]
    fn json_stays_the_same_json() {
        let json = "{\n\t\"a\": \"\u{7f}\u{9b}31m\u{202e}\\n\",\r\n\"ü\": 1.50}";
        let shown = safe_json(json);
        assert_eq!(
            shown,
            "{\n\t\"a\": \"\\u007f\\u009b31m\\u202e\\n\",\n\"ü\": 1.50}"
        );
        let read = |json| serde_json::from_str::<serde_json::Value>(json).expect("JSON");
        assert_eq!(read(&shown), read(json));
        assert_eq!(safe_json("no\njson"), "no\\njson");
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        let numbers = [0, 999, 1_000, 1_234_567].map(thousands);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }
}
