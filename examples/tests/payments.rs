//! The bank's books balance, whoever was killed on the way, and as often as it is run.

use std::process::{Command, Output};

mod support;

fn payments() -> Command {
    let mut command = Command::new(support::example("payments"));
    command
        .env_remove("DATABASE_URL")
        .env_remove("OUTBOX_TEST_POSTGRES");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_a_database_it_says_what_to_do() {
    let Output { status, stderr, .. } = payments().output().expect("the example starts");
    assert!(!status.success());
    let said = text(&stderr);
    assert!(
        said.contains("./scripts/test --serve cargo run --example payments"),
        "{said}"
    );
}

mod postgres {
    use outbox_tests::Db;

    use super::{payments, text};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_books_balance_after_a_crash() {
        let db = Db::postgres().await.empty().await;
        // It makes its tables anew, so it can be run again.
        for _ in 0..2 {
            let mut command = payments();
            command.env("DATABASE_URL", db.url());
            let output = tokio::task::spawn_blocking(move || command.output())
                .await
                .expect("the command is waited for")
                .expect("the example starts");
            let (printed, said) = (text(&output.stdout), text(&output.stderr));
            assert!(
                output.status.success(),
                "it failed: {said}\nafter:\n{printed}"
            );
            for line in [
                "9 settled, 3 rolled back for want of funds; messages in the outbox: 9",
                "messages still in the outbox: 9",
                "this relay delivered 9, and stops",
                "receipts written: 9; messages that were handled twice",
                "the money in all accounts is what it was: 40000",
                "settled transfers with a receipt: 9",
                "rolled back transfers with a receipt: 0",
                "dead letters: 0",
            ] {
                assert!(printed.contains(line), "`{line}` is missing in:\n{printed}");
            }
            assert!(
                !printed.contains("have one receipt: 0"),
                "the kill hit no handler:\n{printed}"
            );
        }
        db.remove().await;
    }
}
