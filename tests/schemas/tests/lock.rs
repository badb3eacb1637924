//! The life of a message's schema, in a crate of its own with `cargo test` as its user runs it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A crate with one message.
struct Project {
    folder: PathBuf,
    /// Where what it depends on is built already.
    target: PathBuf,
}

/// How `cargo test` went.
struct Ran {
    passed: bool,
    text: String,
}

const FIRST: &str = r#"
#[outbox::message(topic = "orders.placed")]
#[derive(Debug, garde::Validate)]
pub struct OrderPlaced {
    /// Its number.
    #[garde(skip)]
    pub order: i64,
    #[garde(range(min = 1))]
    pub price: u32,
    #[garde(email)]
    pub receipt_to: String,
}
"#;

impl Project {
    /// An empty one. It always stands at the same place, so that it is built over what the last run has left.
    fn new(name: &str) -> Self {
        let test = std::env::current_exe().expect("this program's path");
        let target = test.ancestors().nth(3).expect("target/debug/deps/lock");
        let folder = target.join("tests/lock").join(name);
        // There is none the first time.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("src")).expect("a folder");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let library = root.join("outbox").canonicalize().expect("the library");
        let manifest = format!(
            r#"
[package]
name = "outbox-lock-{name}"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
garde = {{ version = "0.23", default-features = false, features = ["derive", "email", "regex"] }}
outbox = {{ path = {library:?}, features = ["garde", "schema", "sqlite"] }}
"#
        );
        let project = Self {
            folder,
            target: target.to_owned(),
        };
        fs::write(project.path("Cargo.toml"), manifest).expect("a file");
        fs::copy(root.join("Cargo.lock"), project.path("Cargo.lock")).expect("a file");
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Runs its tests with this code. `accept` as its user would set `OUTBOX_SCHEMA`.
    fn test(&self, code: &str, accept: &str) -> Ran {
        fs::write(self.path("src/lib.rs"), code).expect("a file");
        let ran = Command::new(std::env::var_os("CARGO").expect("run by cargo"))
            .args(["test", "--offline", "--quiet", "--lib"])
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("OUTBOX_SCHEMA", accept)
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("cargo runs");
        let text = [ran.stdout, ran.stderr].concat();
        Ran {
            passed: ran.status.success(),
            text: String::from_utf8_lossy(&text).into_owned(),
        }
    }
}

impl Ran {
    #[track_caller]
    fn passes(&self) {
        assert!(self.passed, "{}", self.text);
        assert!(!self.text.contains("warning"), "{}", self.text);
    }

    /// What the failing test says.
    #[track_caller]
    fn says(&self) -> String {
        assert!(!self.passed, "{}", self.text);
        let told = self.text.split_once("panicked at").map(|(_, told)| told);
        let told = told.unwrap_or_else(|| panic!("it does not compile: {}", self.text));
        let told = told.split_once('\n').map_or(told, |(_, told)| told);
        let told = told.split("note: run with").next().unwrap_or(told);
        told.trim_end().to_owned()
    }
}

#[test]
fn a_schema_is_written_held_changed_and_succeeded() {
    let project = Project::new("life");
    let (schema, sample) = (
        "schemas/orders.placed/v1.json",
        "schemas/orders.placed/v1.sample.json",
    );

    // It begins.
    insta::assert_snapshot!("missing", project.test(FIRST, "").says());
    assert!(!project.has("schemas"), "nothing is written unasked");
    insta::assert_snapshot!("misspelt", project.test(FIRST, "yes").says());
    project.test(FIRST, "accept").passes();
    let read = |name: &str| fs::read_to_string(project.path(name)).expect("it was written");
    insta::assert_snapshot!("file", read(schema));
    insta::assert_snapshot!("sample", read(sample));
    project.test(FIRST, "").passes();

    // A change that breaks nobody is told, and can be accepted.
    let harmless = FIRST
        .replace("Its number.", "The order's number.")
        .replace("pub price", "#[garde(skip)]\n    pub note: Option<String>,\n    #[garde(range(min = 1))]\n    pub price")
        .replace("#[garde(range(min = 1))]\n    #[garde(skip)]", "#[garde(skip)]");
    insta::assert_snapshot!("harmless", project.test(&harmless, "").says());
    project.test(&harmless, "accept").passes();
    project.test(&harmless, "").passes();
    assert!(read(schema).contains("note"));
    assert!(!read(sample).contains("note"), "a sample stays as it is");

    // One that breaks somebody can't.
    let kept = read(schema);
    let breaking = harmless.replace("pub price: u32", "pub cents: u64");
    let told = project.test(&breaking, "").says();
    insta::assert_snapshot!("breaking", told);
    assert_eq!(project.test(&breaking, "accept").says(), told);
    assert_eq!(read(schema), kept);

    // As a new version it can.
    let second = format!(
        r#"
{}
#[outbox::message(topic = "orders.placed", version = 2, from = OrderPlacedV1)]
#[derive(Debug)]
pub struct OrderPlaced {{
    pub order: i64,
    pub cents: u64,
}}

impl From<OrderPlacedV1> for OrderPlaced {{
    fn from(old: OrderPlacedV1) -> Self {{
        Self {{ order: old.order, cents: u64::from(old.price) * 100 }}
    }}
}}
"#,
        harmless.replace("OrderPlaced", "OrderPlacedV1")
    );
    let renamed = project.test(&second, "").says();
    assert!(renamed.contains("breaks nobody") || renamed.contains("v2.json is missing"));
    project.test(&second, "accept").passes();
    project.test(&second, "").passes();
    assert!(project.has("schemas/orders.placed/v2.json"));
    assert!(project.has("schemas/orders.placed/v2.sample.json"));

    // Yesterday's payloads are read with today's code, the lifted ones included.
    fs::write(
        project.path(sample),
        r#"{"order": 7, "price": "9", "receipt_to": "a@example.com"}"#,
    )
    .expect("a file");
    let told = project.test(&second, "accept").says();
    assert!(
        told.contains(&format!(
            "{sample}, a payload of version 1, can no longer be read as `"
        )) && told.contains("payload can't be decoded: `price`: expected u32"),
        "{told}"
    );
}

#[test]
fn a_file_that_is_not_the_messages_is_refused() {
    let project = Project::new("files");
    project.test(FIRST, "accept").passes();
    let file = project.path("schemas/orders.placed/v1.json");
    let text = fs::read_to_string(&file).expect("it was written");
    let says = |text: &str| {
        fs::write(&file, text).expect("a file");
        project.test(FIRST, "accept").says()
    };
    let moved = says(&text.replace("orders.placed\"", "orders.shipped\""));
    assert!(
        moved.contains("is the schema of orders.shipped version 1, not of orders.placed version 1"),
        "{moved}"
    );
    let broken = says("{");
    assert!(
        broken.contains("v1.json can't be read: this is no schema of a message: EOF"),
        "{broken}"
    );
}

#[test]
fn a_sample_that_can_not_be_made_up_is_asked_for() {
    let project = Project::new("samples");
    let code = r#"
fn even(it: &Even) -> Result<(), String> {
    if it.number == 7 { Ok(()) } else { Err("is not 7".into()) }
}

#[outbox::message(topic = "numbers.even", validate = even)]
pub struct Even {
    pub number: u8,
}
"#;
    let told = project.test(code, "accept").says();
    assert!(
        told.contains("no sample of `Even` (numbers.even version 1) can be made up from its schema: payload is invalid: is not 7")
            && told.contains("write one by hand, into schemas/numbers.even/v1.sample.json"),
        "{told}"
    );
    let sample = project.path("schemas/numbers.even/v1.sample.json");
    fs::write(&sample, r#"{"number": 7}"#).expect("a file");
    project.test(code, "").passes();
}

#[test]
fn a_message_that_can_not_read_itself_is_told_so() {
    let project = Project::new("read_back");
    let code = r#"
#[outbox::message(topic = "notes.taken")]
pub struct Note {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
    #[serde(rename(serialize = "by", deserialize = "author"))]
    pub author: String,
}
"#;
    insta::assert_snapshot!("read_back", project.test(code, "accept").says());
    assert!(!project.has("schemas"), "nothing was accepted");
    project
        .test(
            &code
                .replace("#[serde(skip", "#[serde(default, skip")
                .replace("deserialize = \"author\"", "deserialize = \"by\""),
            "accept",
        )
        .passes();
}

#[test]
fn another_teams_message_is_held_against_its_file() {
    let owner = Project::new("owner");
    owner.test(FIRST, "accept").passes();
    let file = fs::read_to_string(owner.path("schemas/orders.placed/v1.json")).expect("written");
    let reader = Project::new("reader");
    fs::write(reader.path("their.json"), &file).expect("a file");
    let code = |field: &str| {
        format!(
            r#"
#[outbox::message(topic = "orders.placed", schema = "their.json", role = reader)]
#[derive(Debug, garde::Validate)]
pub struct Ordered {{
    {field}
}}
"#
        )
    };
    reader
        .test(&code("#[garde(range(min = 1))] pub price: u64"), "")
        .passes();
    let told = reader
        .test(&code("#[garde(range(max = 10))] pub price: u64"), "")
        .says();
    insta::assert_snapshot!("contract", told);
    // The file is another one: cargo builds anew, and the compiler says so.
    fs::write(
        reader.path("their.json"),
        file.replace("\"price\"", "\"cents\""),
    )
    .expect("a file");
    let ran = reader.test(&code("#[garde(range(min = 1))] pub price: u64"), "");
    assert!(
        ran.text
            .contains("`price` is not a field of orders.placed v1"),
        "{}",
        ran.text
    );
}
