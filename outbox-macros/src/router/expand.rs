//! Writes the router's expression: its promises as constants, then its tables.
//!
//! The promises are free of the state's type, which is inferred where the router is used, so that
//! they can stand in `const _` items: those are evaluated by `cargo check`, an inline `const` in a
//! generic function is not.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

use super::{check::Router, parse::Entry};
use crate::span::{all, ours, over};

/// The expression. `errors` stand inside it, since an expression is one thing.
pub(super) fn expand(router: &Router, errors: &TokenStream) -> TokenStream {
    let Router {
        krate,
        entries,
        required,
    } = router;
    let private = quote!(#krate::__private);
    let [parts, table] = ["OUTBOX_PARTS", "OUTBOX_TABLE"].map(ours);
    let lines: Vec<_> = entries
        .iter()
        .enumerate()
        .map(|(n, entry)| Line::new(n, entry, &private, &table))
        .collect();
    let aliases = lines.iter().map(|line| &line.alias);
    let part = lines.iter().map(|line| &line.part);
    let checks = lines.iter().map(|line| &line.check);
    let required = required
        .iter()
        .map(|entry| self::required(entry, &private, &table));
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
    /// A short name for the handler, so that its path stands in the expansion once.
    alias: TokenStream,
    part: TokenStream,
    check: TokenStream,
    entry: TokenStream,
}

impl Line {
    fn new(n: usize, entry: &Entry, private: &TokenStream, table: &Ident) -> Self {
        let Entry {
            attrs,
            joined,
            path,
        } = entry;
        let cfg = all(attrs);
        let span = over(path);
        if *joined {
            return Self {
                alias: TokenStream::new(),
                part: quote_spanned!(span=> #cfg #private::Part::joined(#n, #path.promises())),
                check: quote_spanned!(span=> #cfg const _: () = #table.check(#n);),
                entry: quote_spanned!(span=> #cfg #path),
            };
        }
        let alias = Ident::new(&format!("OutboxHandler{n}"), span);
        Self {
            alias: quote_spanned!(span=> #cfg type #alias = #path;),
            part: quote_spanned!(span=> #cfg #private::Part::handler(#n, #private::promise::<#alias>())),
            check: quote_spanned!(span=> #cfg const _: () = #table.check(#n);),
            entry: quote_spanned!(span=> #cfg #private::Entry::of::<#alias>()),
        }
    }
}

fn required(entry: &Entry, private: &TokenStream, table: &Ident) -> TokenStream {
    let Entry { attrs, path, .. } = entry;
    let cfg = all(attrs);
    let span = over(path);
    let name = path
        .segments
        .last()
        .map(|last| crate::span::unraw(&last.ident))
        .unwrap_or_default();
    quote_spanned!(span=> #cfg const _: () = #table.require(#private::topic::<#path>(), #name);)
}
