//! A thousand handlers and one too many: the compiler finds that one, and nothing else.

use std::{fmt::Write as _, fs};

const MODULES: usize = 10;
const HANDLERS: usize = 100;

#[test]
fn one_of_a_thousand_and_one_handlers_is_refused() {
    let file = "scale/a_thousand_and_one_handlers.rs";
    fs::write(file, program()).expect("the program is written");
    trybuild::TestCases::new().compile_fail(file);
}

/// The handlers stand in modules with a router each, which the last router joins.
fn program() -> String {
    let mut text = String::from(
        "#![deny(warnings)]\n#[derive(Clone, outbox::FromRef)] pub struct App { number: u8 }\n",
    );
    let (mut joined, mut required) = (String::new(), String::new());
    for module in 0..MODULES {
        let mut handlers = String::new();
        // Writing into a `String` can't fail.
        let _ = writeln!(text, "pub mod module_{module} {{");
        for n in 0..HANDLERS {
            let _ = writeln!(
                text,
                "#[outbox::message(topic = \"scale.module-{module}.message-{n}\")] pub struct M{n} {{ #[outbox(key)] id: u64 }}\n\
                 #[outbox::handler] pub async fn h{n}(m: M{n}, _: outbox::State<u8>) -> Result<(), outbox::HandlerError> {{ let _ = m.id; Ok(()) }}"
            );
            let _ = write!(handlers, "h{n},");
            let _ = write!(required, "module_{module}::M{n},");
        }
        let _ = writeln!(
            text,
            "pub static ROUTES: outbox::Router<super::App> = outbox::router![{handlers}];\n}}"
        );
        let _ = write!(joined, "..module_{module}::ROUTES,");
    }
    text + &format!(
        "#[outbox::handler] pub async fn one_too_many(_: module_7::M42) {{}}\n\
         pub static ROUTER: outbox::Router<App> = outbox::router![{joined}\n\
         one_too_many; requires {required}]; fn main() {{ let _ = App {{ number: 1 }}.number; }}\n"
    )
}
