// What a handler's signature can't be.

#[outbox::message(topic = "orders.placed")]
struct OrderPlaced;

#[outbox::handler]
fn not_async(_: OrderPlaced) {}

#[outbox::handler]
fn returns_a_result(_: OrderPlaced) -> Result<(), String> {
    Ok(())
}

#[outbox::handler]
async unsafe fn unsafe_(_: OrderPlaced) {}

#[outbox::handler]
async extern "C" fn extern_(_: OrderPlaced) {}

#[outbox::handler]
const fn const_(_: OrderPlaced) {}

#[outbox::handler]
async fn nothing() {}

#[outbox::handler]
async fn by_reference(_: &OrderPlaced) {}

#[outbox::handler]
async fn delivery_by_reference(_: OrderPlaced, _: &outbox::Delivery) {}

#[outbox::handler]
async fn opaque(_: impl outbox::Message) {}

#[outbox::handler]
async fn generic<T: outbox::Message>(_: T) {}

#[outbox::handler]
async fn with_lifetime<'a>(_: OrderPlaced) {}

#[outbox::handler]
async fn borrowed(_: std::borrow::Cow<'_, str>) {}

#[outbox::handler]
async fn conditional(_: OrderPlaced, #[cfg(any())] _: outbox::Delivery) {}

// A type that comes through a macro is wrapped, and seen all the same.
macro_rules! handler {
    ($name:ident, $type:ty) => {
        #[outbox::handler]
        async fn $name(_: $type) {}
    };
}

handler!(by_reference_from_a_macro, &OrderPlaced);

#[outbox::handler]
struct NotAFunction;

fn main() {}
