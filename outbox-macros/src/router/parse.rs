//! Reads `[crate = ::path;] entry, ..module::ROUTES, … [; requires Message, …]`.

use proc_macro2::TokenStream;
use syn::{
    Attribute, Path, Token,
    ext::IdentExt as _,
    parse::{Parse, ParseStream, Parser as _},
};

use crate::{errors::Errors, krate::Krate};

/// A router, as written.
pub(super) struct Parsed {
    pub(super) krate: Krate,
    pub(super) entries: Vec<Entry>,
    pub(super) required: Vec<Entry>,
}

/// One element of a list.
pub(super) struct Entry {
    /// Its `#[cfg]`s.
    pub(super) attrs: Vec<Attribute>,
    /// Whether it stands after `..`: the path of another router.
    pub(super) joined: bool,
    pub(super) path: Path,
}

/// Reads as much as it can.
pub(super) fn parse(input: TokenStream, errors: &mut Errors) -> Parsed {
    let mut parsed = Parsed {
        krate: Krate::default(),
        entries: Vec::new(),
        required: Vec::new(),
    };
    let parser = |input: ParseStream<'_>| {
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            parsed.krate = crate_path(input)?;
            input.parse::<Token![;]>()?;
        }
        list(input, &mut parsed.entries)?;
        if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            requires(input)?;
            list(input, &mut parsed.required)?;
        }
        if input.is_empty() {
            Ok(())
        } else if let Some(word) = parsed.entries.pop_if(|last| last.path.is_ident("requires")) {
            Err(syn::Error::new_spanned(
                word.path,
                "`requires` stands after a `;`: `router![handler; requires Message]`",
            ))
        } else {
            Err(input.error(
                "expected `,` between two entries, or `; requires Message`; an entry is the name of a handler \
                 (`send_invoice`) or another router (`..billing::ROUTES`)",
            ))
        }
    };
    errors.ok(parser.parse2(input));
    parsed.required.retain(|entry| {
        if entry.joined {
            errors.at(
                &entry.path,
                "`requires` takes message types; join a router before the `;`",
            );
        }
        !entry.joined
    });
    parsed
}

fn crate_path(input: ParseStream<'_>) -> syn::Result<Krate> {
    if let Ok(quoted) = input.fork().parse::<syn::LitStr>() {
        return Err(syn::Error::new_spanned(
            quoted,
            "write the path without quotes: `crate = ::outbox`",
        ));
    }
    Krate::absolute(&input.call(Path::parse_mod_style)?)
}

fn requires(input: ParseStream<'_>) -> syn::Result<()> {
    const EXPECTED: &str =
        "expected `requires` and message types after `;`: `; requires OrderPlaced`";
    if input.peek(syn::Ident::peek_any) {
        let word = syn::Ident::parse_any(input)?;
        return if word == "requires" {
            Ok(())
        } else {
            Err(syn::Error::new_spanned(word, EXPECTED))
        };
    }
    Err(input.error(EXPECTED))
}

fn list(input: ParseStream<'_>, entries: &mut Vec<Entry>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![;]) {
        entries.push(input.parse()?);
        if !input.peek(Token![,]) {
            break;
        }
        input.parse::<Token![,]>()?;
    }
    Ok(())
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let joined = input.peek(Token![..]);
        if joined {
            input.parse::<Token![..]>()?;
        }
        Ok(Self {
            attrs,
            joined,
            path: input.call(Path::parse_mod_style)?,
        })
    }
}
