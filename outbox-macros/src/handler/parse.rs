//! Reads the attribute's arguments and the function's signature; the body stays unread.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use syn::{
    Attribute, Expr, ExprPath, Signature, Visibility,
    parse::{ParseStream, Parser as _},
    spanned::Spanned as _,
};

use crate::{
    args::{Arg, Args},
    duration,
    errors::Errors,
    krate::Krate,
    span::{invocation, is_keyword},
    topic_arg::Topic,
};

const ARGUMENTS: &[&str] = &[
    "topic",
    "timeout",
    "max_attempts",
    "backoff",
    "concurrency",
    "rate",
    "on_error",
    "name",
    "crate",
];

/// A function under `#[outbox::handler]`, as written.
pub(super) struct Parsed {
    pub(super) krate: Krate,
    pub(super) attrs: Vec<Attribute>,
    pub(super) vis: Visibility,
    pub(super) signature: Signature,
    pub(super) topic: Option<Topic>,
    pub(super) policy: Policy,
    pub(super) on_error: Option<ExprPath>,
    /// The marker's name, if it is not the function's.
    pub(super) name: Option<Ident>,
}

/// What the arguments say about deliveries.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// `Some(None)` is `timeout = none`.
    pub(super) timeout: Option<Option<Duration>>,
    pub(super) max_attempts: Option<u32>,
    pub(super) backoff: Option<(Duration, Duration)>,
    pub(super) concurrency: Option<u32>,
    /// So many starts in such a time.
    pub(super) rate: Option<(u32, Duration)>,
}

/// Reads the function; `None` if there is nothing to go on with.
pub(super) fn parse(args: TokenStream, item: TokenStream, errors: &mut Errors) -> Option<Parsed> {
    let head = |input: ParseStream<'_>| {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let signature: Signature = input.parse()?;
        // A `;` instead of a body is rustc's to report.
        let _body: TokenStream = input.parse()?;
        Ok((attrs, vis, signature))
    };
    let near = item.span();
    let Ok((attrs, vis, signature)) = head.parse2(item) else {
        errors.at_span(
            invocation(near),
            "`#[outbox::handler]` makes a handler of an `async fn`; put it on one",
        );
        return None;
    };

    let mut args = Args::parse(args, "`#[outbox::handler]`", ARGUMENTS, errors);
    Some(Parsed {
        krate: Krate::from_args(&mut args, errors),
        attrs,
        vis,
        signature,
        topic: args
            .take("topic")
            .and_then(|arg| errors.ok(Topic::parse(&arg))),
        policy: Policy {
            timeout: args
                .take("timeout")
                .and_then(|arg| errors.ok(timeout(&arg))),
            max_attempts: args
                .take("max_attempts")
                .and_then(|arg| errors.ok(arg.count("max_attempts = 5"))),
            backoff: args
                .take("backoff")
                .and_then(|arg| errors.ok(backoff(&arg))),
            concurrency: args
                .take("concurrency")
                .and_then(|arg| errors.ok(arg.count("concurrency = 4"))),
            rate: args.take("rate").and_then(|arg| errors.ok(rate(&arg))),
        },
        on_error: args
            .take("on_error")
            .and_then(|arg| errors.ok(arg.path("on_error = path::to_fn").cloned())),
        name: args.take("name").and_then(|arg| errors.ok(name(&arg))),
    })
}

fn timeout(arg: &Arg) -> syn::Result<Option<Duration>> {
    const FORM: &str = "timeout = \"30s\"` or `timeout = none";
    if let Expr::Path(path) = arg.value(FORM)?
        && path.path.is_ident("none")
    {
        return Ok(None);
    }
    let text = arg.text(FORM)?;
    duration::parse(&text.value())
        .map(Some)
        .map_err(|error| syn::Error::new_spanned(text, error))
}

fn backoff(arg: &Arg) -> syn::Result<(Duration, Duration)> {
    let text = arg.text("backoff = \"1s..5m\"")?;
    duration::parse_range(&text.value()).map_err(|error| syn::Error::new_spanned(text, error))
}

fn rate(arg: &Arg) -> syn::Result<(u32, Duration)> {
    let text = arg.text("rate = \"100/s\"")?;
    duration::parse_rate(&text.value()).map_err(|error| syn::Error::new_spanned(text, error))
}

fn name(arg: &Arg) -> syn::Result<Ident> {
    const FORM: &str = "name = SendReceipt";
    let path = arg.path(FORM)?;
    path.path
        .get_ident()
        .filter(|name| !is_keyword(name))
        .cloned()
        .ok_or_else(|| syn::Error::new_spanned(path, format!("`name` takes one name: `{FORM}`")))
}
