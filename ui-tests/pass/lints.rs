// No lint fires on what the macros write.

#![deny(warnings)]
#![deny(missing_docs, unreachable_pub, unused_qualifications, missing_debug_implementations, deprecated)]
#![deny(private_interfaces, private_bounds, non_local_definitions, elided_lifetimes_in_paths)]
#![deny(let_underscore_drop, single_use_lifetimes, unused_lifetimes, trivial_casts, unused_results)]
#![forbid(unsafe_code)]

//! Documented.

use outbox::Router;

#[outbox::message(topic = "old")]
#[deprecated]
#[derive(Debug)]
struct Old {
    #[outbox(key)]
    id: u64,
}

#[allow(deprecated)]
#[outbox::handler]
async fn on_old(old: Old) {
    let _ = old.id;
}

mod inner {
    #[outbox::message(topic = "inner")]
    #[derive(Debug)]
    pub(crate) struct Inner {
        #[outbox(key)]
        pub(crate) id: u64,
    }

    #[outbox::handler]
    pub(in crate::inner) async fn on_inner(inner: Inner) -> Result<(), String> {
        if inner.id == 0 { Err("zero".to_owned()) } else { Ok(()) }
    }

    pub(crate) static ROUTES: outbox::Router = outbox::router![on_inner];
}

static ROUTER: Router = outbox::router![on_old, ..inner::ROUTES; requires inner::Inner];

fn main() {
    let _ = ROUTER;
}
