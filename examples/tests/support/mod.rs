//! What the tests of the examples share.

use std::path::PathBuf;

/// Cargo builds a package's examples along with its tests, into the folder beside theirs.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("tests are built into `<profile>/deps`");
    let path = profile.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing; run the tests without restricting them to one target",
        path.display()
    );
    path
}
