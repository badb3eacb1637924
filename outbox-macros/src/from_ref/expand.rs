//! Writes one impl for each field.

use proc_macro2::TokenStream;
use quote::quote_spanned;

use super::check::State;
use crate::span::{ours, over};

pub(super) fn expand(state: &State) -> TokenStream {
    let State {
        krate,
        ident,
        generics,
        parts,
    } = state;
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let whole = ours("outbox_state");
    let impls = parts.iter().map(|(member, ty)| {
        let span = over(ty);
        let krate = krate.at(span);
        quote_spanned! {span=>
            impl #impl_generics #krate::FromRef<#ident #type_generics> for #ty #where_clause {
                fn from_ref(#whole: &#ident #type_generics) -> Self {
                    <#ty as ::core::clone::Clone>::clone(&#whole.#member)
                }
            }
        }
    });
    impls.collect()
}
