//! Reads the item and its attributes; judges only their form.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{
    Attribute, Data, DeriveInput, Expr, ExprPath, Fields, Generics, Member, Path, Type, Visibility,
};

use super::{ARGUMENTS, CARRIER, attribute::derives, schema::Schema};
use crate::{args::Args, errors::Errors, krate::Krate, span::invocation, topic_arg::Topic};

/// An item under `#[outbox::message]`, as written.
pub(super) struct Parsed {
    pub(super) krate: Krate,
    pub(super) ident: Ident,
    pub(super) vis: Visibility,
    pub(super) generics: Generics,
    pub(super) shape: Shape,
    /// `None` if it is missing or wrong, which has been reported.
    pub(super) topic: Option<Topic>,
    pub(super) version: Version,
    pub(super) schema: Schema,
    pub(super) validate: Option<ExprPath>,
    pub(super) methods: bool,
    pub(super) serde: bool,
    pub(super) garde: Garde,
    /// Whether the item or a part of it is `#[deprecated]`.
    pub(super) deprecated: bool,
    /// What the user allows for the item they allow for the type that it names by `from`, which may be
    /// deprecated.
    pub(super) allows: Vec<Attribute>,
}

/// `version = 2, from = …`
#[derive(Default)]
pub(super) struct Version {
    /// The number and the tokens that give it; `None` if it is wrong, which has been reported.
    pub(super) number: Option<(u32, Expr)>,
    pub(super) from: Option<From>,
    /// Whether an argument was wrong, so that what is missing may follow from that.
    pub(super) saw_wrong: bool,
}

pub(super) enum From {
    /// `from = none`
    None(Expr),
    /// `from = OrderPlacedV1`
    Message(ExprPath),
}

pub(super) enum Shape {
    Struct(Vec<Field>),
    Enum(Vec<Variant>),
}

pub(super) struct Variant {
    pub(super) ident: Ident,
    pub(super) fields: Vec<Field>,
}

pub(super) struct Field {
    pub(super) member: Member,
    pub(super) ty: Type,
    /// `#[outbox(key)]`, once for each time it is written.
    pub(super) keys: Vec<Key>,
    /// Whether serde is told how to treat the field.
    pub(super) has_serde: bool,
}

pub(super) struct Key {
    pub(super) at: Ident,
    pub(super) with: Option<ExprPath>,
}

/// What the item says about garde.
#[derive(Default)]
pub(super) struct Garde {
    /// A derive of `garde::Validate`, or of a bare `Validate`, below our attribute.
    pub(super) derive: Option<Path>,
    /// A derive of `Validate` whose path does not name garde.
    pub(super) bare: Option<Path>,
    /// The first `#[garde(..)]` on the item, a field or a variant.
    pub(super) rule: Option<Attribute>,
    /// `#[garde(context(..))]`.
    pub(super) context: Option<Attribute>,
}

/// Reads the item; `None` if there is nothing to go on with.
pub(super) fn parse(item: TokenStream, errors: &mut Errors) -> Option<Parsed> {
    let item: DeriveInput = errors.ok(syn::parse2(item))?;
    let Some(tokens) = item.attrs.iter().find_map(carried) else {
        errors.at(
            &item.ident,
            "write `#[outbox::message(topic = \"...\")]`, not the derive behind it",
        );
        return None;
    };
    for attr in item
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("outbox") && carried(attr).is_none())
    {
        errors.at(
            attr,
            "`#[outbox(..)]` goes on a field; the message's own arguments stand in `#[outbox::message(..)]`",
        );
    }

    let mut args = Args::parse(tokens, "`#[outbox::message]`", ARGUMENTS, errors);
    let krate = Krate::from_args(&mut args, errors);
    let topic = topic(&mut args, item.ident.span(), errors);
    let validate = args
        .take("validate")
        .and_then(|arg| errors.ok(arg.path("validate = path::to_fn").cloned()));
    let methods = args
        .take("methods")
        .and_then(|arg| errors.ok(arg.flag("methods = false")))
        .unwrap_or(true);
    let serde = args
        .take("serde")
        .and_then(|arg| errors.ok(arg.flag("serde = false")))
        .unwrap_or(true);
    let version = Version::parse(&mut args, errors);
    let schema = Schema::parse(&mut args, errors);

    let garde = Garde::of(&item);
    let deprecated = attributes(&item).any(|attr| attr.path().is_ident("deprecated"));
    let allow = |attr: &&Attribute| attr.path().is_ident("allow");
    let allows = item.attrs.iter().filter(allow).cloned().collect();
    let shape = match item.data {
        Data::Struct(data) => Shape::Struct(fields(data.fields, errors)),
        Data::Enum(data) => Shape::Enum(
            data.variants
                .into_iter()
                .map(|variant| self::variant(variant, errors))
                .collect(),
        ),
        // The attribute refuses it before it comes here.
        Data::Union(_) => return None,
    };
    let DeriveInput {
        ident,
        vis,
        generics,
        ..
    } = item;
    Some(Parsed {
        krate,
        ident,
        vis,
        generics,
        shape,
        topic,
        version,
        schema,
        validate,
        methods,
        serde,
        garde,
        deprecated,
        allows,
    })
}

/// The arguments of `#[outbox::message]`, if this is the attribute that carries them.
pub(super) fn carried(attr: &Attribute) -> Option<TokenStream> {
    let list = attr
        .path()
        .is_ident("outbox")
        .then(|| attr.meta.require_list().ok())
        .flatten()?;
    let mut tokens = list.tokens.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), Some(TokenTree::Group(args))) if name == CARRIER => {
            Some(args.stream())
        }
        _ => None,
    }
}

fn topic(args: &mut Args, near: Span, errors: &mut Errors) -> Option<Topic> {
    if let Some(arg) = args.take("topic") {
        return errors.ok(Topic::parse(&arg));
    }
    // A misspelt `topic` has been reported; that it is missing follows from it.
    if !args.saw_wrong() {
        errors.at_span(
            invocation(near),
            "the message has no topic; write `#[outbox::message(topic = \"...\")]`",
        );
    }
    None
}

impl Version {
    fn parse(args: &mut Args, errors: &mut Errors) -> Self {
        let mut version = Self {
            saw_wrong: args.saw_wrong(),
            ..Self::default()
        };
        if let Some(arg) = args.take("version") {
            let number = errors.ok(arg.count("version = 2"));
            version.saw_wrong |= number.is_none();
            version.number = number.zip(arg.value);
        }
        if let Some(arg) = args.take("from") {
            let path = errors.ok(arg.path("from = OrderPlacedV1").cloned());
            version.saw_wrong |= path.is_none();
            version.from = path.map(|path| match path.path.is_ident("none") {
                true => From::None(Expr::Path(path)),
                false => From::Message(path),
            });
        }
        version
    }
}

fn variant(variant: syn::Variant, errors: &mut Errors) -> Variant {
    for attr in variant
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("outbox"))
    {
        errors.at(attr, "`#[outbox(key)]` goes on a field of the variant");
    }
    Variant {
        ident: variant.ident,
        fields: fields(variant.fields, errors),
    }
}

fn fields(fields: Fields, errors: &mut Errors) -> Vec<Field> {
    let members: Vec<_> = fields.members().collect();
    let field = |(member, field): (Member, syn::Field)| Field {
        member,
        keys: field
            .attrs
            .iter()
            .filter_map(|attr| key(attr, errors))
            .collect(),
        has_serde: field.attrs.iter().any(|attr| attr.path().is_ident("serde")),
        ty: field.ty,
    };
    members.into_iter().zip(fields).map(field).collect()
}

fn key(attr: &Attribute, errors: &mut Errors) -> Option<Key> {
    if !attr.path().is_ident("outbox") {
        return None;
    }
    let list = errors.ok(attr.meta.require_list())?;
    let mut args = Args::parse(
        list.tokens.clone(),
        "`#[outbox(..)]` on a field",
        &["key"],
        errors,
    );
    let Some(arg) = args.take("key") else {
        if list.tokens.is_empty() {
            errors.at(attr, "`#[outbox()]` says nothing; write `#[outbox(key)]`");
        }
        return None;
    };
    let with = match &arg.value {
        Some(_) => Some(errors.ok(arg.path("key = path::to_fn").cloned())?),
        None => None,
    };
    Some(Key { at: arg.name, with })
}

impl Garde {
    fn of(item: &DeriveInput) -> Self {
        let mut garde = Self::default();
        for path in derives(&item.attrs) {
            let names: Vec<_> = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect();
            match names
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .as_slice()
            {
                ["Validate"] => garde.bare = Some(path),
                [.., "garde", "Validate"] => garde.derive = Some(path),
                _ => {}
            }
        }
        garde.context = item.attrs.iter().find(|attr| has_context(attr)).cloned();
        garde.rule = attributes(item)
            .find(|attr| attr.path().is_ident("garde"))
            .cloned();
        garde
    }
}

/// All attributes of the item, its fields, its variants and theirs.
fn attributes(item: &DeriveInput) -> impl Iterator<Item = &Attribute> {
    let (fields, variants): (Vec<_>, Vec<_>) = match &item.data {
        Data::Struct(data) => (data.fields.iter().collect(), Vec::new()),
        Data::Enum(data) => (
            data.variants
                .iter()
                .flat_map(|variant| &variant.fields)
                .collect(),
            data.variants.iter().collect(),
        ),
        Data::Union(_) => (Vec::new(), Vec::new()),
    };
    let of_fields = fields.into_iter().flat_map(|field| &field.attrs);
    let of_variants = variants.into_iter().flat_map(|variant| &variant.attrs);
    item.attrs.iter().chain(of_fields).chain(of_variants)
}

fn has_context(attr: &Attribute) -> bool {
    let Ok(list) = attr.meta.require_list() else {
        return false;
    };
    attr.path().is_ident("garde")
        && list
            .tokens
            .clone()
            .into_iter()
            .any(|token| matches!(token, TokenTree::Ident(name) if name == "context"))
}
