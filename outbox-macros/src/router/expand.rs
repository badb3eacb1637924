//! Writes the router's expression: its promises as constants, then its tables.
//!
//! The promises are free of the state's type, which is inferred where the router is used, so that
//! they can stand in `const _` items: those are evaluated by `cargo check`, an inline `const` in a
//! generic function is not.
//!
//! A handler is imported rather than named: a function that is none, and a router that lacks its `..`,
//! are values, and rustc would say "expected type" and no more. An import takes whatever has the
//! name, and where that is no type, the name's type is found behind a glob import, which is weaker: one
//! of ours that is no handler, so that our own words are shown.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use super::{check::Router, parse::Entry};
use crate::{
    krate::Krate,
    span::{self, all, emitted, ours, over},
};

const FALLBACK: &str = "outbox_fallback";
const PARTS: &str = "OUTBOX_PARTS";
const TABLE: &str = "OUTBOX_TABLE";

/// The expression. `errors` stand inside it, since an expression is one thing.
pub(super) fn expand(router: &Router, errors: &TokenStream) -> TokenStream {
    let Router {
        krate,
        entries,
        required,
    } = router;
    let private = krate.private(emitted(Span::call_site()));
    let parts = ours(PARTS);
    let table = ours(TABLE);
    let lines: Vec<_> = entries
        .iter()
        .enumerate()
        .map(|(n, entry)| Line::new(n, entry, krate))
        .collect();
    let imports = lines.iter().map(|line| &line.import);
    let aliases = lines.iter().map(|line| &line.alias);
    let fallbacks = lines.iter().map(|line| &line.fallback);
    let fallback = ours(FALLBACK);
    let part = lines.iter().map(|line| &line.part);
    let checks = lines.iter().map(|line| &line.check);
    let required = required.iter().map(|entry| self::required(entry, krate));
    let handlers = entries
        .iter()
        .zip(&lines)
        .filter(|(entry, _)| !entry.joined)
        .map(|(_, line)| &line.entry);
    let joined = entries
        .iter()
        .zip(&lines)
        .filter(|(entry, _)| entry.joined)
        .map(|(_, line)| &line.entry);
    quote! {
        {
            #errors
            mod #fallback {
                pub(super) type OutboxUsed = ();
                #(#fallbacks)*
            }
            use #fallback::*;
            const _: OutboxUsed = ();
            #(#imports)*
            #(#aliases)*
            const #parts: &[#private::Part] = &[#(#part),*];
            const #table: &#private::Table<{ #private::slots(#parts) }> = &#private::Table::new(#parts);
            #(#checks)*
            #(#required)*
            #private::Router::new(
                const { &[#(#handlers),*] },
                const { &[#(#joined),*] },
                const { &#private::flatten::<{ #private::count(#parts) }>(#parts) },
            )
        }
    }
}

/// What one entry adds to the expression.
struct Line {
    /// Imports the handler, so that its path stands in the expansion once.
    import: TokenStream,
    /// What the import's name means as a type, if the handler's path is no type.
    fallback: TokenStream,
    /// A name for the handler that goes through the trait, so that for a type that is no handler all
    /// uses of it report the same one error.
    alias: TokenStream,
    part: TokenStream,
    check: TokenStream,
    entry: TokenStream,
}

impl Line {
    fn new(n: usize, entry: &Entry, krate: &Krate) -> Self {
        let Entry {
            attrs,
            joined,
            path,
        } = entry;
        let cfg = all(attrs);
        let span = over(path);
        let private = krate.private(span);
        let table = ours(TABLE);
        let function = |span| {
            let private = krate.private(span);
            quote_spanned!(span=> #private::Table::check)
        };
        let check = span::promise(path, function, quote!(#table, #n));
        let check = quote!(#cfg #check);
        if *joined {
            return Self {
                import: TokenStream::new(),
                fallback: TokenStream::new(),
                alias: TokenStream::new(),
                part: quote_spanned!(span=> #cfg #private::Part::joined(#n, &#path)),
                check,
                entry: quote_spanned!(span=> #cfg #path),
            };
        }
        let [imported, alias] =
            ["OutboxImported", "OutboxHandler"].map(|name| Ident::new(&format!("{name}{n}"), span));
        let item = span::item(path);
        Self {
            import: quote_spanned!(span=> #cfg use #item as #imported;),
            fallback: quote_spanned!(span=> #cfg pub(super) type #imported = #private::NotAHandler;),
            alias: quote_spanned!(span=> #cfg type #alias = <#imported as #private::Handler>::This;),
            part: quote_spanned!(span=> #cfg #private::Part::handler(#n, #private::promise::<#alias>())),
            check,
            entry: quote_spanned!(span=> #cfg #private::Entry::of::<#alias>()),
        }
    }
}

fn required(entry: &Entry, krate: &Krate) -> TokenStream {
    let Entry { attrs, path, .. } = entry;
    let cfg = all(attrs);
    let span = over(path);
    let name = path
        .segments
        .last()
        .map(|last| span::unraw(&last.ident))
        .unwrap_or_default();
    let private = krate.private(span);
    let topic = quote_spanned!(span=> #private::Required::of::<#path>());
    let table = ours(TABLE);
    let function = |span| {
        let private = krate.private(span);
        quote_spanned!(span=> #private::Table::require)
    };
    let require = span::promise(path, function, quote!(#table, #topic, #name));
    quote!(#cfg #require)
}
