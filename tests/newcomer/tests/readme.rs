//! The project of the README, as a stranger would type it: it is this package, and it delivers.

use std::{path::Path, process::Command};

const README: &str = include_str!("../../../README.md");

#[test]
fn the_program_is_the_readmes() {
    assert_eq!(
        block("rust,no_run"),
        include_str!("../src/main.rs"),
        "copy one over the other"
    );
}

/// Apart from where the library is, and from what only this test needs.
#[test]
fn the_manifest_is_the_readmes() {
    let ours = include_str!("../Cargo.toml");
    let (ours, _) = ours
        .split_once("\n[dev-dependencies]")
        .expect("this test has dependencies of its own");
    let ours = ours
        .replace("publish = false\n", "")
        .replace("../../outbox", "../outbox/outbox");
    assert_eq!(block("toml").trim(), ours.trim(), "copy one over the other");
}

#[test]
fn it_delivers_at_the_first_try() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = Command::new(env!("CARGO_BIN_EXE_newcomer"))
        .current_dir(folder.path())
        .output()
        .expect("the program starts");
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert!(
        printed.contains("receipt for account 7: 1999 cents"),
        "{printed}"
    );
    assert!(printed.contains("delivered: 1"), "{printed}");
}

/// A link to a test names it in its title: `[test](path "name")`.
#[test]
fn every_promise_has_the_test_it_links_to() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut links = 0;
    for link in README.split("](").skip(1) {
        let (target, _) = link.split_once(')').expect("a link ends");
        let Some((file, title)) = target.split_once(' ') else {
            continue;
        };
        let name = title.trim_matches('"');
        let source = std::fs::read_to_string(root.join(file))
            .unwrap_or_else(|error| panic!("the README links to {file}: {error}"));
        assert!(
            source.contains(&format!("fn {name}(")),
            "the README links to the test `{name}`, which is not in {file}"
        );
        links += 1;
    }
    assert!(links > 15, "the README links to {links} tests only");
}

/// The first block of the README in this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = README
        .split_once(&format!("```{language}\n"))
        .expect("the README has such a block");
    rest.split_once("```").expect("the block ends").0
}
