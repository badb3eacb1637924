// Topics given as literals are checked by the macro, those given as constants by the compiler.

#[outbox::message(topic = "Orders Placed")]
struct Uppercase;

#[outbox::message(topic = "")]
struct Empty;

#[outbox::message(topic = "grösse")]
struct Umlaut;

#[outbox::message(topic = 1)]
struct Number;

#[outbox::message(topic = b"a")]
struct Bytes;

#[outbox::message(topic)]
struct NoValue;

fn main() {}
