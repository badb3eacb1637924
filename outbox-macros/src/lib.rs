//! The macros of the `outbox` crate. Use them through it: `outbox::message`, `outbox::handler`,
//! `outbox::router!`, `outbox::Event`, `outbox::FromRef`.

mod args;
mod duration;
mod errors;
mod event;
mod from_ref;
mod handler;
mod krate;
mod message;
#[cfg(feature = "schema")]
mod patch;
mod publish;
mod router;
mod span;
mod suggest;
#[cfg(test)]
mod tests;
mod topic;
mod topic_arg;

use proc_macro::TokenStream;

/// Makes a message of a struct or an enum: something that can be published and handled.
///
/// ```
/// #[outbox::message(topic = "payments.settled")]
/// #[derive(Debug, Clone, garde::Validate)]
/// pub struct PaymentSettled {
///     #[outbox(key)]
///     #[garde(skip)]
///     pub account_id: u64,
///     #[garde(range(min = 1))]
///     pub amount_cents: i64,
/// }
///
/// # async fn settle(payment: PaymentSettled, pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = pool.begin().await?;
/// payment.publish(&mut tx).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Equivalent code
///
/// The attribute stands above the derives. It adds `Serialize` and `Deserialize` where they are not
/// derived, and writes
///
/// ```
/// # use std::borrow::Cow;
/// # use outbox::{Enlist, Invalid, Message, Publication, Publish, Published, Publishing, __private::serde};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # #[serde(crate = "outbox::__private::serde")]
/// # pub struct PaymentSettled { account_id: u64 }
/// impl Message for PaymentSettled {
///     const TOPIC: &'static str = "payments.settled";
///     const VERSION: u32 = 1;
///
///     fn key(this: &Self) -> Option<Cow<'_, str>> {
///         outbox::Key::key(&this.account_id)
///     }
///
///     fn validate(this: &Self) -> Result<(), Invalid> {
///         // garde's rules, then those of `validate = path`
/// #       Ok(())
///     }
/// }
///
/// impl Publish for PaymentSettled {
///     fn publication(&self) -> Publication<'_> {
///         Publication::new(self)
///     }
/// }
///
/// // as visible as the type
/// impl PaymentSettled {
///     pub fn publish<'t, Via, T: Enlist<Via> + ?Sized>(&self, tx: &'t mut T) -> Publishing<'t, Published> {
///         Publish::publish(self, tx)
///     }
///
///     pub fn publication(&self) -> Publication<'_> {
///         Publish::publication(self)
///     }
///
///     pub fn publish_all<'t, 'm, Via, T: Enlist<Via> + ?Sized>(
///         messages: impl IntoIterator<Item = &'m Self>,
///         tx: &'t mut T,
///     ) -> Publishing<'t, Vec<Published>> {
///         Publish::publish_all(messages, tx)
///     }
/// }
/// ```
///
/// # Arguments
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `topic = "orders.placed"` | where the message goes: a literal or a constant's path; lowercase ASCII letters, digits, `-`, `_`, `.`; 1 to 255 bytes | required |
/// | `validate = path` | `fn(&Self) -> Result<(), E>` with `E: Display`; runs at each publish and before each handler | none |
/// | `serde = false` | adds no serde derives: they stand above the attribute, or are written by hand | `true` |
/// | `methods = false` | adds no methods; publish through the trait `outbox::Publish` | `true` |
/// | `version = 2` | the version of the payload's shape, 1 and up | `1` |
/// | `from = OrderPlacedV1` | the message of the previous version, which turns into this one by `From`; `none` if no row of an earlier version is left | required above version 1 |
/// | `schema = "schemas/orders.placed/v1.json"` | the schema of another team's message, which this one has to agree with; `false`: no schema (feature `schema`) | its own, held against its file by a test |
/// | `role = reader` | what is done with another team's message: `reader` or `publisher` | both |
/// | `crate = ::path` | where `outbox` is, if it is not `::outbox` | `::outbox` |
///
/// On a field, `#[outbox(key)]` makes it the ordering and partition key: a string, an integer, a
/// `Uuid`, a `Cow<str>`, or an `Option` of these. `#[outbox(key = path)]` is for other types:
/// `fn(&Field) -> impl Into<String>`. In an enum every variant has a key, or none has.
///
/// # Versions
///
/// ```
/// #[outbox::message(topic = "orders.placed")]
/// pub struct OrderPlacedV1 {
///     pub price: u32,
/// }
///
/// #[outbox::message(topic = "orders.placed", version = 2, from = OrderPlacedV1)]
/// pub struct OrderPlaced {
///     pub cents: u64,
/// }
///
/// impl From<OrderPlacedV1> for OrderPlaced {
///     fn from(old: OrderPlacedV1) -> Self {
///         Self { cents: u64::from(old.price) * 100 }
///     }
/// }
/// # fn main() {}
/// ```
///
/// A handler of `OrderPlaced` then gets rows of both versions. Each is decoded and validated as the type of its own
/// version first. `from` names the previous version of the same topic, which may come from an earlier one in
/// turn. A relay leaves rows of versions that its handlers don't take alone. In which order to deploy a new
/// version stands in the library's page `changing_a_message`.
///
/// # Validation
///
/// The rules of `#[derive(garde::Validate)]` run if the derive stands below the attribute, under that
/// name, or as `Validate` where the item carries `#[garde(..)]`; outbox's feature `garde` must be
/// on. They run at publish, before any SQL, and before the handler, since a row can come from an
/// older build or from plain SQL. Rules that would not run are an error.
///
/// # Errors you may meet
///
/// * ``invalid character 'O' at byte 0 in topic "Orders"``: see `topic` above.
/// * `E0119`, *conflicting implementations of trait `Serialize`*: the derive stands above the
///   attribute, or under another name. Move it below, or say `serde = false`.
/// * `E0592`, *duplicate definitions with name `publish`*: the type has a method of that name. Say
///   `methods = false` and use `outbox::Publish`.
/// * *`Pool<Postgres>` would commit the message on its own*, and rustc's `E0308`, *types differ in
///   mutability*, at `message.publish(&pool)`: begin a transaction and pass `&mut tx`.
/// * *this rule would not run*: `#[garde(..)]` without the derive below the attribute. Add it there.
/// * *the garde rules of `X` can't be run*: the derived `Validate` is not that of garde 0.23, or its
///   rules need a context, which outbox can't give; `validate = path` can.
///
/// # Limitations
///
/// A message is a concrete type that owns its data: no generics, no lifetimes. garde's derive names
/// the crate `::garde`, so it can't be renamed or come through another crate. serde's derives allow
/// single lints of the group `nonstandard_style`, which rustc reports under a `forbid` of the group;
/// `deny` it, or implement serde's traits by hand.
#[proc_macro_attribute]
pub fn message(args: TokenStream, item: TokenStream) -> TokenStream {
    message::attribute(args.into(), item.into()).into()
}

/// The derive behind `#[outbox::message]`: it sees the fields after `#[cfg]` and `#[cfg_attr]`. `garde`
/// is among its helper attributes so that a rule without its derive gets one error, ours.
#[doc(hidden)]
#[proc_macro_derive(Message, attributes(outbox, garde))]
pub fn derive_message(item: TokenStream) -> TokenStream {
    message::derive(item.into()).into()
}

/// Publishes an enum as the message that its variant wraps.
///
/// ```
/// #[outbox::message(topic = "orders.placed")]
/// pub struct OrderPlaced {
///     pub order: u64,
/// }
///
/// #[outbox::message(topic = "orders.cancelled")]
/// pub struct OrderCancelled {
///     pub order: u64,
///     pub reason: String,
/// }
///
/// #[derive(outbox::Event)]
/// pub enum OrderEvent {
///     Placed(OrderPlaced),
///     Cancelled(OrderCancelled),
/// }
///
/// # async fn place(outbox: outbox::Outbox, pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// # let mut tx = pool.begin().await?;
/// let event = OrderEvent::Placed(OrderPlaced { order: 1 });
/// event.publish(&mut tx).await?; // to "orders.placed"
///
/// let events = vec![event, OrderEvent::Cancelled(OrderCancelled { order: 2, reason: "late".into() })];
/// outbox.publish_all(events, &mut tx).await?; // each to its own topic
/// # tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// The event itself is not a message: it has no topic, is not serialized, and no handler takes it.
/// Each of its messages has its own topic and handler.
///
/// # Equivalent code
///
/// ```
/// # use outbox::{Enlist, Publication, Publish, Published, Publishing};
/// # #[outbox::message(topic = "orders.placed")] pub struct OrderPlaced;
/// # #[outbox::message(topic = "orders.cancelled")] pub struct OrderCancelled;
/// # pub enum OrderEvent { Placed(OrderPlaced), Cancelled(OrderCancelled) }
/// impl Publish for OrderEvent {
///     fn publication(&self) -> Publication<'_> {
///         match self {
///             Self::Placed(message) => message.publication(),
///             Self::Cancelled(message) => message.publication(),
///         }
///     }
/// }
///
/// // as visible as the type; likewise `publication` and `publish_all`
/// impl OrderEvent {
///     pub fn publish<'t, Via, T: Enlist<Via> + ?Sized>(&self, tx: &'t mut T) -> Publishing<'t, Published> {
///         Publish::publish(self, tx)
///     }
/// }
/// ```
///
/// # Arguments
///
/// In `#[outbox(..)]` on the enum:
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `methods = false` | adds no methods; publish through the trait `outbox::Publish` | `true` |
/// | `crate = ::path` | where `outbox` is, if it is not `::outbox` | `::outbox` |
///
/// # Errors you may meet
///
/// * *variant `X` wraps nothing*, *wraps 2 fields*: each variant has one field, which is a message.
/// * *`X` is not an outbox message*: the type in the variant lacks `#[outbox::message(topic = "...")]`.
/// * *`X` is a message .. and can't be an event as well*: choose one of both.
/// * `E0592`, *duplicate definitions with name `publish`*: say `#[outbox(methods = false)]`.
///
/// # Limitations
///
/// Enums only. A variant may also wrap a reference, a `Box` or an `Arc` of a message, or another event.
#[proc_macro_derive(Event, attributes(outbox))]
pub fn event(item: TokenStream) -> TokenStream {
    event::derive(item.into()).into()
}

/// Makes a handler of an `async fn`: what a router lists for the topic of its message.
///
/// ```
/// use outbox::{Delivery, HandlerError, ResultExt, State};
///
/// #[outbox::message(topic = "payments.settled")]
/// pub struct PaymentSettled {
///     pub receipt_to: String,
/// }
///
/// # #[derive(Clone)] pub struct Mailer;
/// # impl Mailer { async fn send(&self, _: &str, _: impl Sized) -> std::io::Result<()> { Ok(()) } }
/// #[outbox::handler(timeout = "30s", max_attempts = 5)]
/// pub async fn send_receipt(
///     payment: PaymentSettled,
///     State(mailer): State<Mailer>,
///     delivery: Delivery,
/// ) -> Result<(), HandlerError> {
///     if payment.receipt_to.is_empty() {
///         return Err(HandlerError::cancel("no address"));
///     }
///     mailer.send(&payment.receipt_to, delivery.id()).await?; // retried with backoff
///     Ok(())
/// }
/// ```
///
/// The message comes first, by value. After it stands, in any order, what a delivery provides:
/// `outbox::Delivery`, `outbox::State<T>` for a part of the relay's state, and whatever implements
/// `outbox::FromDelivery`.
///
/// The function returns `()` or `Result<(), E>`, where `E` turns into a boxed error: std errors,
/// `anyhow::Error`, boxes, strings, `outbox::HandlerError`. An error is retried with backoff, unless it
/// says otherwise.
///
/// # Equivalent code
///
/// The function stays as it is. Beside it stands a type of the same name, which a router lists:
/// functions and types have namespaces of their own, so `use billing::charge;` imports both, and the
/// function can still be called, from a unit test for example.
///
/// ```
/// # #[outbox::message(topic = "payments.settled")] pub struct PaymentSettled;
/// pub async fn send_receipt(payment: PaymentSettled) { /* … */ }
///
/// #[allow(non_camel_case_types)]
/// pub enum send_receipt {}
/// // and impls by which a router finds the topic, and a relay calls the function
/// ```
///
/// # Arguments
///
/// All are optional. What a handler says wins over the relay's builder.
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `topic = "orders.placed"` | asserts the message's topic: a literal or a constant's path | the message's, unasserted |
/// | `timeout = "30s"`, `timeout = none` | how long one attempt may take; units `ns`, `us`, `ms`, `s`, `m`, `h` | the relay's `handler_timeout`: 5 min |
/// | `max_attempts = 5` | how many attempts a message gets | the relay's: 10 |
/// | `backoff = "1s..5m"` | the first and the longest delay before another attempt | the relay's: 1 s and 300 s |
/// | `concurrency = 4` | how many run at once in one relay; it holds at most twice as many rows of the topic, and leaves the others to other relays | the relay's `concurrency`, for all handlers together |
/// | `rate = "100/s"` | how many start in a time in one relay; units `s`, `m`, `h`. They are spread evenly: at once start no more than a tenth of a second brings, at least one | unlimited |
/// | `on_error = path` | `fn(&E) -> outbox::Decision`: what becomes of the message, by the error | retry, or what a `HandlerError` says |
/// | `name = SendReceipt` | another name for the type that the router lists | the function's |
/// | `crate = ::path` | where `outbox` is, if it is not `::outbox` | `::outbox` |
///
/// # Errors you may meet
///
/// * *`X` is not an outbox message*: the first argument's type lacks `#[outbox::message(topic = "...")]`,
///   or the message does not come first.
/// * *a handler must be an `async fn`*: write `async`. A function without it has to return its future:
///   attributes that expand before this one may leave one behind.
/// * *a handler can't take `X` as an argument*: a part of the state is asked for by `State(x): State<X>`.
/// * *a handler can't return `X`*: see above; a boxed error has to be `Send + Sync`.
/// * *handler `f` is declared for topic "a" but its message `M` has topic "b"*: one of both is wrong.
/// * *future cannot be sent between threads safely*: the note below points at the `.await` over which
///   something is held that can't be sent.
/// * `E0428`, `E0255`, *the name `audit` is defined multiple times*: a module or a type of the
///   function's name stands beside it. Say `name = Audit`, and list `Audit` in the router.
/// * `E0599`, *no variant named `Result` found for enum `anyhow`*: the function is named like a crate
///   that the module uses. Rename it or say `name = ..`.
/// * *enum is not supported in `trait`s or `impl`s*: a handler must be a free function. An attribute can't
///   see what it stands in, so that these are rustc's words for one in an `impl` without `self`.
///
/// # Limitations
///
/// A handler is a free function with concrete types, all taken by value: no generics, no lifetimes,
/// no `impl Trait` among its arguments, no `#[cfg]` on one of them.
#[proc_macro_attribute]
pub fn handler(args: TokenStream, item: TokenStream) -> TokenStream {
    handler::attribute(args.into(), item.into()).into()
}

/// Makes a router: the handlers of a relay, checked while it compiles.
///
/// ```
/// # #[derive(Clone, outbox::FromRef)] pub struct App { number: u8 }
/// # #[outbox::message(topic = "payments.settled")] pub struct PaymentSettled;
/// # #[outbox::message(topic = "orders.placed")] pub struct OrderPlaced;
/// # #[outbox::message(topic = "orders.shipped")] pub struct OrderShipped;
/// # #[outbox::handler] pub async fn send_receipt(_: PaymentSettled) {}
/// # pub mod shipping {
/// #   use super::*;
/// #   #[outbox::handler] pub async fn ship(_: OrderPlaced) {}
/// # }
/// # pub mod billing {
/// #   use super::*;
/// #   #[outbox::handler] pub async fn bill(_: OrderShipped) {}
/// #   pub static ROUTES: outbox::Router<App> = outbox::router![bill];
/// # }
/// static ROUTER: outbox::Router<App> = outbox::router![
///     send_receipt,
///     shipping::ship,
///     ..billing::ROUTES;
///     requires PaymentSettled, OrderPlaced
/// ];
/// # fn main() {}
/// ```
///
/// It is an expression, for a `static`, a `const` or a `let`. If it compiles, no topic has two
/// handlers and each required message has one, joined routers included. `..module::ROUTES` joins
/// another router for the same state: the path of a `static` or a `const`. Without `State`
/// arguments the state is `()`, or whatever the relay is given.
///
/// # Equivalent code
///
/// ```text
/// {
///     const PROMISES: &[Promise] = &[/* topic, name and place of each handler, joined ones included */];
///     const _: () = /* for each entry: its topic has no handler before it */;
///     const _: () = /* for each required message: its topic has a handler */;
///     Router::new(/* decoders and functions for the state `App` */)
/// }
/// ```
///
/// # Arguments
///
/// ```text
/// router![
///     crate = ::path;                 // where `outbox` is, if it is not `::outbox`
///     handler, ..joined::ROUTER, …;   // `#[cfg(..)]` can stand on each
///     requires Message, …             // `#[cfg(..)]` can stand on each
/// ]
/// ```
///
/// # Errors you may meet
///
/// * *topic "orders.placed" already has a handler*: the two are named with their places.
/// * *no handler for topic "orders.shipped" (message `OrderShipped`) in this router*.
/// * *not an outbox handler*: the function lacks `#[outbox::handler]`, or the entry is a router, which is
///   joined by `..ROUTES`.
/// * *the state `App` does not hand out a `Mailer`*: a handler asks for `State<Mailer>`. Give the state a field of that
///   type and derive `outbox::FromRef` for it.
/// * `E0659`, *`audit` is ambiguous*: a dependency has the handler's name. List it by its path:
///   `self::audit`.
/// * `E0308`, *expected `Router<App>`, found `Router<Other>`*: the joined router has another state. So
///   does *expected `Entry<App>`, found `Entry<Other>`* of a handler, where an argument of its own making
///   implements `FromDelivery` for one state only.
///
/// # Limitations
///
/// Handlers don't register themselves: what no router lists is not called. The compiler reports a
/// private or `pub(crate)` handler as never used, but not a `pub` one, which another crate may list. So
/// keep handlers `pub(crate)`, and give each module one router, `pub` if another crate joins it.
#[proc_macro]
pub fn router(input: TokenStream) -> TokenStream {
    router::router(input.into()).into()
}

/// Lets handlers ask for each field of a state: `State<Mailer>` out of `App`.
///
/// ```
/// # #[derive(Clone)] pub struct Mailer;
/// # #[derive(Clone)] pub struct Clock;
/// #[derive(Clone, outbox::FromRef)]
/// pub struct App {
///     mailer: Mailer,
///     clock: Clock,
///     #[from_ref(skip)]
///     attempts: u32,
/// }
/// ```
///
/// # Equivalent code
///
/// One impl for each field that is not skipped:
///
/// ```
/// # #[derive(Clone)] pub struct Mailer;
/// # pub struct App { mailer: Mailer }
/// impl outbox::FromRef<App> for Mailer {
///     fn from_ref(state: &App) -> Self {
///         state.mailer.clone()
///     }
/// }
/// ```
///
/// # Arguments
///
/// `#[from_ref(skip)]` on a field leaves it out. `#[from_ref(crate = ::path)]` on the struct says where
/// `outbox` is, if it is not `::outbox`.
///
/// # Errors you may meet
///
/// * *two fields have the type `X`*: `State<X>` could mean either. Skip one, or give it a type of its own.
/// * *the trait bound `X: Clone` is not satisfied*: a handler gets a copy. Wrap the field's type in an
///   `Arc`, or skip it.
///
/// # Limitations
///
/// Structs only. Two types that are spelled differently and are the same are found by rustc (`E0119`).
#[proc_macro_derive(FromRef, attributes(from_ref))]
pub fn from_ref(item: TokenStream) -> TokenStream {
    from_ref::derive(item.into()).into()
}
