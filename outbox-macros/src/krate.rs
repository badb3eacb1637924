//! `crate = ::path`: where the library is, for those who renamed it or reach it through another crate.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::{Expr, ExprLit, Lit, Path};

use crate::{
    args::{Arg, Args},
    errors::Errors,
    span::text,
};

/// The argument's name.
pub(crate) const CRATE: &str = "crate";

/// The library's path.
#[derive(Default)]
pub(crate) struct Krate {
    /// `::outbox`, unless the user gave another.
    given: Option<TokenStream>,
}

impl Krate {
    /// The argument's path, or `::outbox`.
    pub(crate) fn from_args(args: &mut Args, errors: &mut Errors) -> Self {
        Self {
            given: args.take(CRATE).and_then(|arg| errors.ok(parse(&arg))),
        }
    }

    /// An absolute path. A relative one would mean another thing in each module, and expansions reach
    /// into several.
    pub(crate) fn absolute(path: &Path) -> syn::Result<Self> {
        absolute(path).map(|path| Self { given: Some(path) })
    }

    /// The path's tokens at `span`: an error in an expression is shown from its first token on.
    pub(crate) fn at(&self, span: Span) -> TokenStream {
        match &self.given {
            None => quote_spanned!(span=> ::outbox),
            Some(path) => path
                .clone()
                .into_iter()
                .map(|token| located(token, span))
                .collect(),
        }
    }

    /// The path's `$crate`, if it starts with one.
    pub(crate) fn of_macro(&self) -> Option<TokenTree> {
        let first = self.given.clone()?.into_iter().next()?;
        (first.to_string() == "$crate").then_some(first)
    }

    /// The module that expansions use.
    pub(crate) fn private(&self, span: Span) -> TokenStream {
        let krate = self.at(span);
        quote_spanned!(span=> #krate::__private)
    }
}

/// The user's token keeps its context, which `$crate` needs.
fn located(mut token: TokenTree, span: Span) -> TokenTree {
    token.set_span(span.resolved_at(token.span()));
    token
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

fn absolute(path: &Path) -> syn::Result<TokenStream> {
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
