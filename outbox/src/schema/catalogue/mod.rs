//! What a service publishes and handles, as a document for others.

mod asyncapi;
mod markdown;

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use super::Schema;
use crate::{Message, Router};

/// The messages of a service, for people and for tools.
///
/// ```
/// use outbox::schema::Catalogue;
///
/// #[outbox::message(topic = "orders.placed")]
/// pub struct OrderPlaced {
///     pub id: i64,
/// }
///
/// #[outbox::message(topic = "orders.shipped")]
/// pub struct OrderShipped {
///     pub id: i64,
/// }
///
/// #[outbox::handler]
/// pub async fn ship(_order: OrderPlaced) {}
///
/// static ROUTER: outbox::Router = outbox::router![ship];
///
/// # fn main() {
/// let catalogue = Catalogue::new("shop", "1.4.0")
///     .router(&ROUTER)
///     .publishes::<OrderShipped>();
/// let document = catalogue.asyncapi();
/// assert_eq!(document["channels"]["orders.placed"]["address"], "orders.placed");
/// assert!(catalogue.markdown().contains("## orders.shipped"));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Catalogue {
    title: String,
    version: String,
    listed: Vec<Listed>,
}

/// What a catalogue knows of a message's type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described {
    topic: &'static str,
    version: u32,
    oldest: u32,
    /// The fields that the key is made of; empty without one.
    key: &'static str,
    schema: fn() -> Option<Schema>,
    json_schema: fn(SchemaGenerator) -> Option<schemars::Schema>,
}

impl Described {
    pub(crate) const fn of<M: Message>() -> Self {
        Self {
            topic: M::TOPIC,
            version: M::VERSION,
            oldest: crate::version::Lineage::of::<M>().oldest(),
            key: M::KEY,
            schema: Schema::of::<M>,
            json_schema: M::json_schema,
        }
    }
}

/// A message, and what the service does with it.
#[derive(Debug, Clone)]
struct Listed {
    message: Described,
    /// The names of its handlers.
    handlers: Vec<&'static str>,
    published: bool,
}

impl Listed {
    /// The name of its type.
    fn title(&self) -> String {
        let schema = (self.message.schema)();
        schema.map_or_else(
            || self.message.topic.to_owned(),
            |schema| schema.title().to_owned(),
        )
    }

    /// The name that it has among all messages.
    fn name(&self) -> String {
        format!("{}.v{}", self.message.topic, self.message.version)
    }

    /// Its JSON Schema in draft 7, which AsyncAPI's own is made of.
    fn draft_7(&self) -> Option<Value> {
        let settings = SchemaSettings::draft07().for_serialize();
        let schema = (self.message.json_schema)(settings.into_generator())?;
        Some(schema.to_value())
    }
}

impl Catalogue {
    /// An empty one, of a service by this name, in this version.
    pub fn new(title: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            version: version.into(),
            listed: Vec::new(),
        }
    }

    /// Adds what a router handles, with the routers that it joins.
    #[must_use]
    pub fn router<S>(mut self, router: &Router<S>) -> Self {
        for entry in router.entries() {
            if let Some(message) = entry.promise.described {
                self.list(message).handlers.push(entry.promise.name);
            }
        }
        self
    }

    /// Adds a message that the service publishes.
    #[must_use]
    pub fn publishes<M: Message>(mut self) -> Self {
        self.list(Described::of::<M>()).published = true;
        self
    }

    fn list(&mut self, message: Described) -> &mut Listed {
        let key = (message.topic, message.version);
        let place = self
            .listed
            .binary_search_by_key(&key, |listed| {
                (listed.message.topic, listed.message.version)
            })
            .unwrap_or_else(|place| {
                let listed = Listed {
                    message,
                    handlers: Vec::new(),
                    published: false,
                };
                self.listed.insert(place, listed);
                place
            });
        &mut self.listed[place]
    }

    /// An [AsyncAPI 3.0](https://www.asyncapi.com/docs/reference/specification/v3.0.0) document: a channel for
    /// each topic, an operation for each handler and each message that is published, and the schemas.
    #[must_use]
    pub fn asyncapi(&self) -> Value {
        asyncapi::document(self)
    }

    /// A page in Markdown: for each message its topic, version, key, fields with their rules, handlers and an
    /// example.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::page(self)
    }
}
