//! `crate = ::path`: where the library is, for those who renamed it or reach it through another crate.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::{Expr, ExprLit, Lit, Path};

use crate::{
    args::{Arg, Args},
    errors::Errors,
    span::{emitted, text},
};

/// The argument's name.
pub(crate) const CRATE: &str = "crate";

/// The library's path: the argument's, or `::outbox`.
pub(crate) fn from_args(args: &mut Args, errors: &mut Errors) -> TokenStream {
    let given = args.take(CRATE).and_then(|arg| errors.ok(parse(&arg)));
    given.unwrap_or_else(default)
}

/// `::outbox`.
pub(crate) fn default() -> TokenStream {
    let span = emitted(proc_macro2::Span::call_site());
    quote_spanned!(span=> ::outbox)
}

fn parse(arg: &Arg) -> syn::Result<TokenStream> {
    match arg.value("crate = ::outbox")? {
        Expr::Path(path) if path.qself.is_none() => absolute(&path.path),
        Expr::Lit(ExprLit {
            lit: Lit::Str(quoted),
            ..
        }) => {
            let path = quoted.value();
            let path = path.trim_start_matches("::");
            let form = if path.is_empty() { "outbox" } else { path };
            Err(syn::Error::new_spanned(
                quoted,
                format!("write the path without quotes: `crate = ::{form}`"),
            ))
        }
        other => Err(arg.wrong(other, "the path of the crate", "crate = ::outbox")),
    }
}

/// A relative path would mean another thing in each module, and expansions reach into several.
pub(crate) fn absolute(path: &Path) -> syn::Result<TokenStream> {
    let first = path
        .segments
        .first()
        .map(|segment| segment.ident.to_string());
    if path.leading_colon.is_some() || matches!(first.as_deref(), Some("crate" | "$crate")) {
        return Ok(quote::ToTokens::to_token_stream(path));
    }
    let given = text(path);
    Err(syn::Error::new_spanned(
        path,
        format!(
            "`crate` takes an absolute path: `crate = ::{given}` for a dependency, `crate = crate::{given}` for a module"
        ),
    ))
}
