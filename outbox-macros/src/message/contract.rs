//! Holds a message against the schema file of the team that owns it: names here, kinds by assertions.

use std::path::Path;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use serde_derive_internals::{
    Ctxt, Derive,
    ast::{self, Style},
    attr,
};
use serde_json::Value;
use syn::{DeriveInput, LitStr};

use super::{
    check::Message,
    schema::{Contract, Role, Schema},
};
use crate::{
    errors::Errors,
    krate::Krate,
    patch::patched,
    span::{ours, over, promise},
    suggest::repair,
    topic_arg::Topic,
};

/// The file, as far as it matters while a program compiles.
struct File {
    /// What is published: `x-outbox-topic` and the like included.
    writes: Value,
    /// What can be read.
    reads: Value,
    /// `orders.placed v1`.
    name: String,
}

impl Role {
    fn reads(self) -> bool {
        self != Self::Publisher
    }
}

/// What keeps the promise, and has cargo look at the file again when it changes.
pub(super) fn expand(message: &Message, item: &DeriveInput, errors: &mut Errors) -> TokenStream {
    let Schema::Contract(Contract { file, role }) = &message.schema else {
        return TokenStream::new();
    };
    let tracked = tracked(file, &message.krate);
    let Some(schema) = errors.ok(File::read(file, message)) else {
        // A file that is not there can't be tracked.
        return TokenStream::new();
    };
    let kinds = fields(&schema, *role, message, item, errors);
    quote!(#tracked #kinds)
}

fn tracked(file: &LitStr, krate: &Krate) -> TokenStream {
    let span = over(file);
    let private = krate.private(span);
    quote_spanned! {span=>
        const _: &[#private::u8] =
            ::core::include_bytes!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/", #file));
    }
}

impl File {
    fn read(at: &LitStr, message: &Message) -> syn::Result<Self> {
        let wrong = |text: String| syn::Error::new_spanned(at, text);
        let name = at.value();
        // rustc is run in the workspace's folder; a user's path starts at their own Cargo.toml.
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        let text = std::fs::read_to_string(Path::new(&folder).join(&name)).map_err(|error| {
            wrong(format!(
                "the schema `{name}` can't be read: {error}; its path starts at the folder of this crate's Cargo.toml"
            ))
        })?;
        let mut writes: Value = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("the schema `{name}` is no JSON: {error}")))?;
        let topic = writes["x-outbox-topic"].as_str().map(str::to_owned);
        let version = writes["x-outbox-version"].as_u64();
        let (Some(topic), Some(version)) = (topic, version) else {
            return Err(wrong(format!(
                "`{name}` is no schema of a message: `x-outbox-topic` or `x-outbox-version` is missing; the owner of the \
                 message makes the file, by the test that its type brings"
            )));
        };
        let other_topic = match &message.topic {
            Some(Topic::Literal(literal)) => literal.value() != topic,
            // The test knows the constant's value.
            _ => false,
        };
        if other_topic || u64::from(message.version) != version {
            return Err(wrong(format!(
                "`{name}` is the schema of {topic} version {version}, and this message is another one: mend its `topic` or \
                 `version`, or name the other file"
            )));
        }
        let patch = writes
            .as_object_mut()
            .and_then(|file| file.remove("x-outbox-reads"));
        let reads = match patch {
            Some(patch) => patched(writes.clone(), &patch),
            None => writes.clone(),
        };
        Ok(Self {
            writes,
            reads,
            name: format!("{topic} v{version}"),
        })
    }

    /// The named fields of the message: those that it may have, and whether it has to have them.
    fn fields(schema: &Value) -> Option<Vec<(&str, bool)>> {
        // What is put together of several parts is left to the test.
        let plain = schema["type"] == "object"
            && ["$ref", "allOf", "anyOf", "oneOf"]
                .iter()
                .all(|part| schema.get(part).is_none());
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .filter(|_| plain)?;
        let required = schema["required"].as_array();
        let is_required =
            |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        Some(
            properties
                .keys()
                .map(|name| (name.as_str(), is_required(name)))
                .collect(),
        )
    }
}

fn fields(
    file: &File,
    role: Role,
    message: &Message,
    item: &DeriveInput,
    errors: &mut Errors,
) -> TokenStream {
    let context = Ctxt::new();
    let private = ours("outbox_private");
    let container = ast::Container::from_ast(&context, item, Derive::Deserialize, &private);
    // serde's own derives report what is wrong with its attributes.
    let (Some(container), Ok(())) = (container, context.check()) else {
        return TokenStream::new();
    };
    let (Some(written), Some(read)) = (File::fields(&file.writes), File::fields(&file.reads))
    else {
        return TokenStream::new();
    };
    let converted = container.attrs.type_from().is_some()
        || container.attrs.type_try_from().is_some()
        || container.attrs.type_into().is_some()
        || container.attrs.transparent();
    let ast::Data::Struct(Style::Struct, fields) = &container.data else {
        return TokenStream::new();
    };
    if converted {
        return TokenStream::new();
    }

    let valid: Vec<_> = written.iter().map(|(name, _)| *name).collect();
    let mut tokens = TokenStream::new();
    let mut covered = Vec::new();
    let mut flattens = false;
    for field in fields {
        if field.attrs.flatten() {
            flattens = true;
            continue;
        }
        let Some(name) = known(field, role, &valid, &mut covered) else {
            if !field.attrs.skip_deserializing() || !field.attrs.skip_serializing() {
                let name = field.attrs.name().deserialize_name().value.clone();
                errors.at(
                    &field.member,
                    format!(
                        "`{name}` is not a field of {}; {}",
                        file.name,
                        repair(&name, &valid)
                    ),
                );
            }
            continue;
        };
        tokens.extend(kind(file, role, message, field, &container.attrs, &name));
    }
    if role.publishes() && !flattens {
        for (name, _) in read
            .iter()
            .filter(|(name, required)| *required && !covered.contains(name))
        {
            errors.at(
                &message.ident,
                format!(
                    "{} has to have `{name}`, which this message lacks; add it, or say `role = reader` if this program only \
                     handles the message",
                    file.name
                ),
            );
        }
    }
    tokens
}

/// The name by which the file knows a field; notes which of them are written.
fn known<'f>(
    field: &ast::Field<'_>,
    role: Role,
    valid: &[&'f str],
    covered: &mut Vec<&'f str>,
) -> Option<String> {
    let names = field.attrs.name();
    let find = |name: &str| valid.iter().copied().find(|valid| *valid == name);
    let written = find(&names.serialize_name().value).filter(|_| !field.attrs.skip_serializing());
    let aliases = field
        .attrs
        .aliases()
        .iter()
        .map(|alias| alias.value.as_str());
    let read = aliases
        .chain([names.deserialize_name().value.as_str()])
        .find_map(find)
        .filter(|_| !field.attrs.skip_deserializing());
    covered.extend(written);
    let (written, read) = (
        written.filter(|_| role.publishes()),
        read.filter(|_| role.reads()),
    );
    match role {
        Role::Reader => read,
        Role::Publisher => written,
        Role::Both => written.or(read),
    }
    .map(str::to_owned)
}

/// An assertion over the field's type, by a trait and never by its name.
fn kind(
    file: &File,
    role: Role,
    message: &Message,
    field: &ast::Field<'_>,
    container: &attr::Container,
    name: &str,
) -> TokenStream {
    // A function makes something else of it.
    if field.attrs.deserialize_with().is_some() || field.attrs.serialize_with().is_some() {
        return TokenStream::new();
    }
    let ty = field.ty;
    let has_default = !field.attrs.default().is_none() || !container.default().is_none();
    let property = |schema: &Value| {
        let required = File::fields(schema)
            .unwrap_or_default()
            .iter()
            .any(|(field, required)| *field == name && *required);
        (kinds(&schema["properties"][name], schema, 0), required)
    };
    let (written, always) = property(&file.writes);
    let (read, wanted) = property(&file.reads);
    let (of_file, role_reads, role_publishes) = (&file.name, role.reads(), role.publishes());
    let krate = &message.krate;
    let span = over(ty);
    let private = krate.private(span);
    let probe = ours("OutboxProbe");
    let function = |span| {
        let private = krate.private(span);
        quote_spanned!(span=> #private::agrees)
    };
    let may_be_absent = !always && !has_default;
    let args = quote_spanned! {span=>
        #private::Field {
            name: #name,
            of: #of_file,
            written: #written,
            may_be_absent: #may_be_absent,
            read: #read,
            wanted: #wanted,
            reads: #role_reads,
            publishes: #role_publishes,
            kinds: <#private::Probe<#probe>>::KINDS,
            is_option: <#private::Optional<#probe>>::IS_OPTION,
        }
    };
    let promise = promise(ty, function, args);
    quote_spanned! {span=>
        const _: () = {
            use #private::{UnknownKinds as _, UnknownOption as _};
            type #probe = #ty;
            #promise
        };
    }
}

/// The kinds of JSON that a schema lets through, as the library numbers them.
fn kinds(schema: &Value, root: &Value, depth: u32) -> u8 {
    const ANY: u8 = 0x7f;
    let Some(map) = schema.as_object().filter(|_| depth < 16) else {
        return ANY;
    };
    let each = |schema: &Value| kinds(schema, root, depth + 1);
    let mut found = ANY;
    if let Some(target) = map.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|at| root.pointer(at));
        found &= target.map_or(ANY, each);
    }
    for part in ["anyOf", "oneOf"] {
        if let Some(parts) = map.get(part).and_then(Value::as_array) {
            found &= parts.iter().map(each).fold(0, |all, one| all | one);
        }
    }
    for part in map
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        found &= each(part);
    }
    match map.get("type") {
        Some(Value::String(word)) => found &= kind_of(word),
        Some(Value::Array(words)) => {
            let all = words.iter().filter_map(Value::as_str).map(kind_of);
            found &= all.fold(0, |all, one| all | one);
        }
        _ => {}
    }
    found
}

fn kind_of(word: &str) -> u8 {
    match word {
        "null" => 1,
        "boolean" => 2,
        "integer" => 4,
        "number" => 4 | 8,
        "string" => 16,
        "array" => 32,
        "object" => 64,
        _ => 0x7f,
    }
}
