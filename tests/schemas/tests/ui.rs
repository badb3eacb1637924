//! What the compiler says of messages with schemas.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Puts the schemas where cases find them: trybuild compiles each in a package of its own making.
fn with_contracts() {
    let test = std::env::current_exe().expect("this program's path");
    let target = test.ancestors().nth(3).map(PathBuf::from);
    let package = target
        .expect("target/debug/deps/ui")
        .join("tests/trybuild")
        .join(env!("CARGO_PKG_NAME"))
        .join("contracts");
    fs::create_dir_all(&package).expect("a folder");
    let contracts = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui/contracts");
    for file in fs::read_dir(contracts).expect("the contracts") {
        let file = file.expect("a file");
        fs::copy(file.path(), package.join(file.file_name())).expect("it can be copied");
    }
}

#[test]
fn fail() {
    with_contracts();
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}

#[test]
fn pass() {
    with_contracts();
    trybuild::TestCases::new().pass("ui/pass/*.rs");
}
