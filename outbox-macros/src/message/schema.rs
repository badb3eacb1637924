//! What `schema` and `role` ask for, and the schema's part of a message.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Expr, ExprLit, ExprPath, Lit, LitStr};

use super::check::{Key, KeyField, Message};
use crate::{
    args::{Arg, Args},
    errors::Errors,
    span::{over, unraw},
};

/// `schema = …` and `role = …`.
#[derive(Default)]
pub(super) enum Schema {
    /// The message's own, held against its file by a test.
    #[default]
    Own,
    /// `schema = false`
    None,
    /// `schema = "schemas/orders.placed/v1.json"`: another team's, which the message has to agree with.
    Contract(Contract),
}

pub(super) struct Contract {
    pub(super) file: LitStr,
    pub(super) role: Role,
}

/// What a program does with another team's message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Not told: it may do both.
    Both,
    Reader,
    Publisher,
}

const SCHEMA: &str = "schema = \"schemas/orders.placed/v1.json\"";
const ROLE: &str = "role = reader";

impl Schema {
    pub(super) fn parse(args: &mut Args, errors: &mut Errors) -> Self {
        let role = args.take("role");
        let schema = args.take("schema");
        let Some(schema) = schema else {
            if let Some(role) = role {
                errors.at(
                    &role.name,
                    format!("`role` says what is done with a message of another team's schema; give that too: `{SCHEMA}`"),
                );
            }
            return Self::Own;
        };
        let role = match role {
            None => Role::Both,
            // The one that has the least to keep, so that no other errors follow from this one.
            Some(arg) => errors.ok(self::role(&arg)).unwrap_or(Role::Reader),
        };
        match errors.ok(value(&schema)) {
            None => Self::None,
            Some(Value::Off) => Self::None,
            Some(Value::File(file)) if cfg!(feature = "schema") => {
                Self::Contract(Contract { file, role })
            }
            Some(Value::File(file)) => {
                errors.at(
                    &file,
                    "a message is held against a schema only with outbox's feature `schema`: add it to the dependency on `outbox`",
                );
                Self::None
            }
        }
    }

    /// Whether the item is to derive `JsonSchema`. The derive reports what is wrong.
    pub(super) fn is_derived(args: &mut Args) -> bool {
        let off = args.take("schema").and_then(|arg| value(&arg).ok());
        cfg!(feature = "schema") && !matches!(off, Some(Value::Off))
    }
}

enum Value {
    Off,
    File(LitStr),
}

fn value(arg: &Arg) -> syn::Result<Value> {
    match arg.value(SCHEMA)? {
        Expr::Lit(ExprLit {
            lit: Lit::Str(file),
            ..
        }) => Ok(Value::File(file.clone())),
        Expr::Lit(ExprLit {
            lit: Lit::Bool(on), ..
        }) if !on.value => Ok(Value::Off),
        other => Err(arg.wrong(other, "the path of a schema's file, or `false`", SCHEMA)),
    }
}

fn role(arg: &Arg) -> syn::Result<Role> {
    let path: &ExprPath = arg.path(ROLE)?;
    let name = path.path.get_ident().map(unraw).unwrap_or_default();
    match name.as_str() {
        "reader" => Ok(Role::Reader),
        "publisher" => Ok(Role::Publisher),
        _ => Err(arg.wrong(
            arg.value(ROLE)?,
            "`reader`, for a program that only handles the message, or `publisher`, for one that only publishes it",
            ROLE,
        )),
    }
}

impl Role {
    /// As the library calls it.
    fn tokens(self, private: &TokenStream) -> TokenStream {
        match self {
            Self::Both => quote!(#private::Role::Both),
            Self::Reader => quote!(#private::Role::Reader),
            Self::Publisher => quote!(#private::Role::Publisher),
        }
    }

    pub(super) fn publishes(self) -> bool {
        self != Self::Reader
    }
}

/// The schema's part of the impl of the message.
pub(super) fn items(message: &Message) -> Option<TokenStream> {
    if !cfg!(feature = "schema") || matches!(message.schema, Schema::None) {
        return None;
    }
    let span = over(&message.ident);
    let private = message.krate.private(span);
    let key = key(&message.key);
    let generator = crate::span::ours("outbox_generator");
    let role = match &message.schema {
        Schema::Contract(contract) if !contract.role.publishes() => Some(quote_spanned! {span=>
            const IS_PUBLISHED: #private::bool = false;
        }),
        _ => None,
    };
    Some(quote_spanned! {span=>
        const KEY: &'static #private::str = #key;
        #role

        fn json_schema(#generator: #private::schemars::SchemaGenerator)
            -> #private::Option<#private::schemars::Schema>
        {
            #private::Some(#generator.into_root_schema_for::<Self>())
        }
    })
}

/// The names of the fields that the key is made of.
fn key(key: &Key) -> String {
    let name = |field: &KeyField| match &field.member {
        syn::Member::Named(name) => unraw(name),
        syn::Member::Unnamed(index) => index.index.to_string(),
    };
    let mut names: Vec<_> = match key {
        Key::None => Vec::new(),
        Key::Field(field) => vec![name(field)],
        Key::Variants(variants) => variants.iter().map(|(_, field)| name(field)).collect(),
    };
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// The test that the message brings.
pub(super) fn test(message: &Message) -> Option<TokenStream> {
    if !cfg!(feature = "schema") {
        return None;
    }
    let ident = &message.ident;
    let span = over(ident);
    let private = message.krate.private(span);
    let folder = quote_spanned!(span=> ::core::env!("CARGO_MANIFEST_DIR"));
    let (name, check) = match &message.schema {
        Schema::None => return None,
        Schema::Own => (
            "schema",
            quote_spanned!(span=> #private::check_schema::<#ident>(#folder)),
        ),
        Schema::Contract(Contract { file, role }) => {
            let role = role.tokens(&private);
            (
                "contract",
                quote_spanned!(span=> #private::check_contract::<#ident>(#folder, #file, #role)),
            )
        }
    };
    let name = format_ident!("outbox_{name}_of_{}", snake(ident), span = span);
    let allow = message
        .deprecated
        .then(|| quote_spanned!(span=> #[allow(deprecated)]));
    Some(quote_spanned! {span=>
        #allow
        #[::core::prelude::v1::test]
        fn #name() {
            #check
        }
    })
}

/// `OrderPlaced` as `order_placed`.
fn snake(ident: &Ident) -> String {
    let mut snake = String::new();
    for c in unraw(ident).chars() {
        if c.is_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}
