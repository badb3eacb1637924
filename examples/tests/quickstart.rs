//! The quickstart does what it says: its whole output is a snapshot, and its figures are asserted.

use std::process::Command;

mod support;

#[test]
fn the_quickstart_tells_the_whole_story() {
    let output = Command::new(support::example("quickstart"))
        .output()
        .expect("the example starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the quickstart failed: {stderr}");
    let printed = String::from_utf8(output.stdout).expect("the output is UTF-8");

    for figure in [
        "3 orders; messages: 3 waiting, 0 dead",
        "3 orders; messages: 4 waiting, 0 dead",
        "3 orders; messages: 0 waiting, 1 dead",
        "delivered 3 and repeated 2 attempts; the handler was called 5 times and sent 3 mails",
    ] {
        assert!(
            printed.contains(figure),
            "`{figure}` is missing in:\n{printed}"
        );
    }
    insta::with_settings!({ filters => vec![
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
    ]}, {
        insta::assert_snapshot!(printed);
    });
}
