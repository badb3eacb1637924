// What is required is a message.

use outbox::Router;

struct NotAMessage;

static ROUTER: Router = outbox::router![; requires NotAMessage];

fn main() {
    let _ = ROUTER;
}
