//! Each feature of the library by itself, in a crate that uses it; and what drivers it brings along.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use serde_json::Value;

/// The packages that are a database's driver, and the feature that wants them.
const DRIVERS: [(&str, &str); 4] = [
    ("sqlx-mysql", "mysql"),
    ("sqlx-postgres", "postgres"),
    ("sqlx-sqlite", "sqlite"),
    ("libsqlite3-sys", "sqlite"),
];

/// Needs the system's OpenSSL, which not every machine has.
const NOT_HERE: &str = "tls-native-tls";

/// What a consumer does with a feature, and the dependencies that it needs for that.
fn use_of(feature: &str) -> (&'static str, &'static str) {
    match feature {
        "mysql" => (
            "pub fn mysql(pool: &sqlx::MySqlPool) { let _ = outbox::Outbox::default().stats(pool); }",
            r#"sqlx = { version = "0.9", default-features = false, features = ["mysql"] }"#,
        ),
        "postgres" => (
            "pub fn postgres(pool: &sqlx::PgPool) { let _ = outbox::Outbox::default().stats(pool); }",
            r#"sqlx = { version = "0.9", default-features = false, features = ["postgres"] }"#,
        ),
        "sqlite" => (
            "pub fn sqlite(pool: &sqlx::SqlitePool) { let _ = outbox::Outbox::default().stats(pool); }",
            r#"sqlx = { version = "0.9", default-features = false, features = ["sqlite-bundled"] }"#,
        ),
        "garde" => (
            "#[outbox::message(topic = \"rules\")] #[derive(garde::Validate)] pub struct Ruled { #[garde(range(min = 1))] pub n: u8 }",
            r#"garde = { version = "0.23", default-features = false, features = ["derive"] }"#,
        ),
        "schema" => (
            "pub fn schema() -> bool { outbox::schema::Schema::of::<Sent>().is_some() }",
            "",
        ),
        "testing" => ("pub use outbox::testing::Kit;", ""),
        "default" | "metrics" | "opentelemetry" | "tls-rustls" => ("", ""),
        other => panic!("what is done with the feature `{other}`? say it here"),
    }
}

const BASE: &str = r#"
//! A consumer of the library.

#[outbox::message(topic = "mails.sent")]
pub struct Sent { pub to: String }

#[outbox::handler]
pub async fn note(sent: Sent) -> Result<(), outbox::HandlerError> { let _ = sent.to; Ok(()) }

pub static ROUTER: outbox::Router = outbox::router![note; requires Sent];
"#;

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").expect("run by cargo"));
    cargo.arg("--offline");
    cargo
}

/// The features that the library has.
fn features() -> Vec<String> {
    let told = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .expect("cargo runs");
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let packages = told["packages"].as_array().expect("packages");
    let library = packages.iter().find(|package| package["name"] == "outbox");
    let features = library.expect("the library")["features"].as_object();
    let names = features.expect("features").keys().cloned();
    names.filter(|name| name != NOT_HERE).collect()
}

/// A crate that uses the library with these features.
struct Consumer {
    folder: PathBuf,
    target: PathBuf,
}

impl Consumer {
    fn of(name: &str, features: &[&str]) -> Self {
        let test = std::env::current_exe().expect("this program's path");
        let target = test.ancestors().nth(3).expect("target/debug/deps/features");
        let folder = target.join("tests/features").join(name);
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let library = root.join("outbox").canonicalize().expect("the library");
        let (mut code, mut dependencies) = (BASE.to_owned(), BTreeMap::new());
        for feature in features {
            let (use_of, dependency) = use_of(feature);
            code.push_str(&format!("{use_of}\n"));
            if let Some((name, _)) = dependency.split_once(' ') {
                let known = dependencies.insert(name, dependency.to_owned());
                // Two databases: one dependency with both features.
                if let Some(known) = known {
                    let more = known.replace(
                        "features = [",
                        "features = [\"sqlite-bundled\", \"postgres\", \"mysql\", ",
                    );
                    dependencies.insert(name, more);
                }
            }
        }
        let dependencies: Vec<_> = dependencies.into_values().collect();
        let manifest = format!(
            "[package]\nname = \"consumer-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
             outbox = {{ path = {library:?}, features = {features:?} }}\n{}\n",
            dependencies.join("\n")
        );
        fs::create_dir_all(folder.join("src")).expect("a folder");
        fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
        fs::write(folder.join("src/lib.rs"), code).expect("a file");
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).expect("a file");
        Self {
            folder,
            target: target.to_owned(),
        }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let ran = cargo()
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("RUSTFLAGS", "-D warnings")
            .output()
            .expect("cargo runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{}: {told}", self.folder.display());
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    fn compiles(&self) {
        self.run(&["check", "--quiet"]);
    }

    /// The packages that it is built of.
    fn packages(&self) -> Vec<String> {
        let tree = self.run(&["tree", "--prefix", "none", "--edges", "normal,build"]);
        let names = tree.lines().filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    }

    fn brings_only(&self, features: &[&str]) {
        let packages = self.packages();
        assert!(
            packages.iter().any(|name| name == "sqlx-core"),
            "{packages:?}"
        );
        for (driver, feature) in DRIVERS {
            let there = packages.iter().any(|name| name == driver);
            assert_eq!(
                there,
                features.contains(&feature),
                "{driver} with {features:?}"
            );
        }
    }
}

#[test]
fn each_feature_stands_alone_and_brings_no_other_driver() {
    for feature in features() {
        let consumer = Consumer::of(&feature, &[&feature]);
        consumer.brings_only(&[&feature]);
        consumer.compiles();
    }
}

#[test]
fn all_features_go_together() {
    let features = features();
    let all: Vec<_> = features.iter().map(String::as_str).collect();
    let consumer = Consumer::of("all", &all);
    consumer.brings_only(&all);
    consumer.compiles();
}
