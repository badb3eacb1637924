//! The page of compile errors quotes what the compiler says.

use std::{collections::HashSet, fs};

const PAGE: &str = include_str!("../../outbox/docs/compile-errors.md");

#[test]
fn every_quoted_line_is_one_of_the_compilers() {
    let said: HashSet<String> = fs::read_dir("fail")
        .expect("the cases are there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "stderr")
        })
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("a text");
            text.lines()
                .map(|line| bare(line).to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    let quoted = quoted();
    assert!(quoted.len() > 30, "{} lines are quoted", quoted.len());
    let invented: Vec<_> = quoted
        .iter()
        .filter(|line| !said.contains(**line))
        .collect();
    assert!(
        invented.is_empty(),
        "the compiler does not say {invented:#?}"
    );
}

/// The lines of the page's `text` blocks.
fn quoted() -> Vec<&'static str> {
    let blocks = PAGE.split("```text\n").skip(1);
    blocks
        .flat_map(|block| block.split("```").next().unwrap_or_default().lines())
        .map(bare)
        .filter(|line| !line.is_empty())
        .collect()
}

/// The line without its indentation and its number in the source, which changes with any line above.
fn bare(line: &str) -> &str {
    line.trim()
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .trim_start()
}
