//! Collects errors, so that two mistakes in one item are both shown.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The errors of one expansion.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// Adds an error that points at `tokens`.
    pub(crate) fn at(&mut self, tokens: &impl ToTokens, text: impl std::fmt::Display) {
        self.0.push(syn::Error::new_spanned(tokens, text));
    }

    /// Adds an error that points at `span`.
    pub(crate) fn at_span(&mut self, span: Span, text: impl std::fmt::Display) {
        self.0.push(syn::Error::new(span, text));
    }

    /// Adds an error of syn's.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }

    /// Adds the error, if there is one, and goes on without the value.
    pub(crate) fn ok<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ToTokens for Errors {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.0.iter().map(syn::Error::to_compile_error));
    }
}
