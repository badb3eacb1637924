//! What the macros cost in build time and in tokens, beside the same written by hand.
//!
//! ```text
//! cargo run --release -p outbox-benches --bin compile_time [-- HANDLERS [ROUNDS]]
//! ```
//!
//! Writes programs of that many messages (default 1,000), with and without handlers, and compiles them
//! in turn: A B C … A B C …, each time from a changed source, dependencies built before.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use outbox_benches::Timings;
use proc_macro2::{TokenStream, TokenTree};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let count: usize = args.next().map_or(Ok(1_000), |arg| arg.parse())?;
    let rounds: usize = args.next().map_or(Ok(5), |arg| arg.parse())?;
    let lab = Lab::new()?;

    let mut sides: Vec<Side> = PROGRAMS
        .iter()
        .map(|&(name, program)| lab.side(name, &program(count)))
        .collect::<Result<_, _>>()?;
    println!(
        "{count} messages and handlers, {rounds} rounds; seconds: median (shortest to longest)\n"
    );
    for command in ["check", "build"] {
        for side in &sides {
            lab.compile(side, command)?;
        }
        for _ in 0..rounds {
            for side in &mut sides {
                side.touch()?;
                let started = Instant::now();
                lab.compile(side, command)?;
                let took = started.elapsed();
                if command == "check" {
                    &mut side.check
                } else {
                    &mut side.build
                }
                .push(took);
            }
        }
    }
    let tokens: Vec<usize> = sides
        .iter()
        .map(|side| lab.tokens(side))
        .collect::<Result<_, _>>()?;

    println!(
        "{:<24} {:>26} {:>26} {:>12}",
        "", "cargo check", "cargo build", "tokens each"
    );
    for (side, tokens) in sides.iter().zip(&tokens) {
        println!(
            "{:<24} {:>26} {:>26} {:>12}",
            side.name,
            shown(&side.check),
            shown(&side.build),
            tokens / count
        );
    }
    println!();
    for (what, ours, theirs) in [("messages", 1, 0), ("messages and handlers", 3, 2)] {
        let (a, b) = (&sides[ours], &sides[theirs]);
        println!(
            "{what}: check {:.2} times, build {:.2} times, tokens {:.2} times by hand",
            a.check.median() / b.check.median(),
            a.build.median() / b.build.median(),
            tokens[ours] as f64 / tokens[theirs] as f64,
        );
    }
    Ok(())
}

type Program = fn(usize) -> String;

/// In pairs: by hand, by macro.
const PROGRAMS: &[(&str, Program)] = &[
    ("messages by hand", |n| many(n, message_by_hand) + MAIN),
    ("messages by macro", |n| many(n, message_by_macro) + MAIN),
    ("with handlers by hand", |n| {
        many(n, message_by_hand) + &many(n, handler_by_hand) + &table_by_hand(n) + MAIN
    }),
    ("with handlers by macro", |n| {
        many(n, message_by_macro) + &many(n, handler_by_macro) + &router(n) + MAIN
    }),
];

const MAIN: &str = "fn main() {}\n";

fn many(count: usize, write: fn(usize) -> String) -> String {
    (0..count).map(write).collect()
}

fn message_by_macro(n: usize) -> String {
    format!(
        r#"
#[outbox::message(topic = "bench.message-{n}")]
pub struct M{n} {{ #[outbox(key)] pub id: u64, pub text: String }}
"#
    )
}

fn message_by_hand(n: usize) -> String {
    format!(
        r#"
#[derive(serde::Serialize, serde::Deserialize)]
pub struct M{n} {{ pub id: u64, pub text: String }}
impl outbox::Message for M{n} {{
    const TOPIC: &'static str = "bench.message-{n}";
    const VERSION: u32 = 1;
    fn key(this: &Self) -> Option<std::borrow::Cow<'_, str>> {{ outbox::Key::key(&this.id) }}
    fn validate(_: &Self) -> Result<(), outbox::Invalid> {{ Ok(()) }}
}}
impl outbox::Publish for M{n} {{
    fn publication(&self) -> outbox::Publication<'_> {{ outbox::Publication::new(self) }}
}}
impl M{n} {{
    pub fn publish<'t, Via, T: outbox::Enlist<Via> + ?Sized>(&self, tx: &'t mut T) -> outbox::Publishing<'t, outbox::Published> {{
        outbox::Publish::publish(self, tx)
    }}
    pub fn publication(&self) -> outbox::Publication<'_> {{ outbox::Publish::publication(self) }}
    pub fn publish_all<'t, 'm, Via, T: outbox::Enlist<Via> + ?Sized>(messages: impl IntoIterator<Item = &'m Self>, tx: &'t mut T) -> outbox::Publishing<'t, Vec<outbox::Published>> {{
        outbox::Publish::publish_all(messages, tx)
    }}
}}
"#
    )
}

const BODY: &str = "let _ = (m.id, delivery.id(), number); Ok(())";

fn handler_by_macro(n: usize) -> String {
    format!(
        "
#[outbox::handler]
pub async fn h{n}(m: M{n}, outbox::State(number): outbox::State<u8>, delivery: outbox::Delivery) -> Result<(), outbox::HandlerError> {{ {BODY} }}
"
    )
}

fn handler_by_hand(n: usize) -> String {
    format!(
        "
pub async fn h{n}(m: M{n}, number: u8, delivery: outbox::Delivery) -> Result<(), outbox::HandlerError> {{ {BODY} }}
fn start{n}(row: &str, delivery: outbox::Delivery, state: &App) -> Started {{
    let message: M{n} = serde_json::from_str(row)?;
    <M{n} as outbox::Message>::validate(&message)?;
    let number = state.number;
    Ok(Box::pin(async move {{ h{n}(message, number, delivery).await.map_err(Into::into) }}))
}}
"
    )
}

fn table_by_hand(count: usize) -> String {
    let mut table = String::from(
        "
#[derive(Clone)]
pub struct App { pub number: u8 }
type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Running = std::pin::Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;
type Started = Result<Running, BoxError>;
type Start = fn(&str, outbox::Delivery, &App) -> Started;
pub static TABLE: &[(&str, Start)] = &[",
    );
    for n in 0..count {
        // Writing into a `String` can't fail.
        let _ = write!(table, "(\"bench.message-{n}\", start{n}),");
    }
    table + "];\n"
}

fn router(count: usize) -> String {
    let list = |prefix: &str| -> String { (0..count).map(|n| format!("{prefix}{n},")).collect() };
    format!(
        "
#[derive(Clone, outbox::FromRef)]
pub struct App {{ pub number: u8 }}
pub static TABLE: outbox::Router<App> = outbox::router![{}; requires {}];
",
        list("h"),
        list("M")
    )
}

/// One program.
struct Side {
    name: &'static str,
    source: PathBuf,
    package: String,
    touched: usize,
    check: Timings,
    build: Timings,
}

impl Side {
    /// Changes the source, so that it is compiled again.
    fn touch(&mut self) -> Result<(), Box<dyn Error>> {
        self.touched += 1;
        let source = fs::read_to_string(&self.source)?;
        let source = source
            .rsplit_once("\n// ")
            .map_or(source.as_str(), |(source, _)| source);
        fs::write(&self.source, format!("{source}\n// {}", self.touched))?;
        Ok(())
    }
}

/// The folder in which the programs are compiled.
struct Lab {
    folder: PathBuf,
    library: PathBuf,
}

impl Lab {
    fn new() -> Result<Self, Box<dyn Error>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .ok_or("the benchmarks stand in the workspace")?;
        let folder = root.join("target/compile-time");
        fs::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            library: root.join("outbox"),
        })
    }

    fn side(&self, name: &'static str, program: &str) -> Result<Side, Box<dyn Error>> {
        let package = name.replace(' ', "-");
        let folder = self.folder.join(&package);
        let source = folder.join("src/main.rs");
        fs::create_dir_all(folder.join("src"))?;
        let manifest = format!(
            "[package]\nname = \"{package}\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
             outbox = {{ path = {:?} }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\nserde_json = \"1\"\n",
            self.library
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(&source, format!("#![allow(dead_code)]\n{program}"))?;
        Ok(Side {
            name,
            source,
            package,
            touched: 0,
            check: Timings::default(),
            build: Timings::default(),
        })
    }

    fn cargo(&self, side: &Side, command: &str) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([command, "--quiet", "--manifest-path"])
            .arg(self.folder.join(&side.package).join("Cargo.toml"))
            // What is measured is the compiler, not the files that it keeps for the next time.
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TARGET_DIR", self.folder.join("target"));
        cargo
    }

    fn compile(&self, side: &Side, command: &str) -> Result<(), Box<dyn Error>> {
        let output = self.cargo(side, command).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{}: {}", side.name, String::from_utf8_lossy(&output.stderr)).into())
    }

    /// The tokens of the program with all macros expanded, serde's derives included.
    fn tokens(&self, side: &Side) -> Result<usize, Box<dyn Error>> {
        let mut cargo = self.cargo(side, "rustc");
        // Only an unstable flag of the compiler shows an expansion.
        cargo
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["--", "-Zunpretty=expanded"]);
        let output = cargo.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let expanded: TokenStream = String::from_utf8(output.stdout)?
            .parse()
            .map_err(|error| format!("the expansion is no Rust: {error}"))?;
        Ok(count(expanded))
    }
}

/// Tokens, delimiters included, documentation not.
fn count(tokens: TokenStream) -> usize {
    let mut total = 0;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' && is_doc(tokens.peek()) => {
                tokens.next();
            }
            TokenTree::Group(group) => total += 2 + count(group.stream()),
            _ => total += 1,
        }
    }
    total
}

fn is_doc(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group))
        if group.stream().into_iter().next().is_some_and(|first| first.to_string() == "doc"))
}

fn shown(timings: &Timings) -> String {
    let (shortest, longest) = timings.spread();
    format!("{:.2} ({shortest:.2} to {longest:.2})", timings.median())
}
