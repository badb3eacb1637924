// rustc's own text: the handler's attribute is what makes a type of the function's name.

use outbox::Router;

async fn plain(_: u32) {}

static ROUTER: Router = outbox::router![plain];

fn main() {
    let _ = ROUTER;
}
