// The handler's attribute is what makes a type of the function's name; without it the name is found all
// the same, as something that is no handler.

use outbox::Router;

async fn plain(_: u32) {}

static ROUTER: Router = outbox::router![plain];

fn main() {
    let _ = ROUTER;
}
