//! What a message and an event have in common: both can be published.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Generics, Lifetime, Visibility};

use crate::{
    krate::Krate,
    span::{self, emitted, ours},
};

/// A type that can be published.
pub(crate) struct Publish<'a> {
    pub(crate) krate: &'a Krate,
    pub(crate) ident: &'a Ident,
    pub(crate) vis: &'a Visibility,
    pub(crate) generics: &'a Generics,
    /// The `where` clause of its impls.
    pub(crate) bounds: Option<TokenStream>,
    /// What is allowed in its impls.
    pub(crate) allow: Option<TokenStream>,
    pub(crate) methods: bool,
}

impl Publish<'_> {
    /// The impl of the trait, whose `publication` does `body`, and the methods of the type, if it
    /// wants some.
    pub(crate) fn expand(&self, body: &TokenStream) -> TokenStream {
        let Self {
            krate,
            ident,
            generics,
            bounds,
            allow,
            ..
        } = self;
        let krate = krate.at(emitted(ident.span()));
        let (impl_generics, type_generics, _) = generics.split_for_impl();
        let methods = self.methods.then(|| self.methods());
        quote_spanned! {emitted(ident.span())=>
            #allow
            impl #impl_generics #krate::Publish for #ident #type_generics #bounds {
                fn publication(&self) -> #krate::Publication<'_> {
                    #body
                }
            }
            #methods
        }
    }

    /// Methods that make publishing readable without an import.
    fn methods(&self) -> TokenStream {
        let Self {
            krate,
            ident,
            vis,
            generics,
            bounds,
            allow,
            ..
        } = self;
        let span = emitted(ident.span());
        let (krate, private) = (krate.at(span), krate.private(span));
        let (impl_generics, type_generics, _) = generics.split_for_impl();
        let [tx, messages] = ["tx", "messages"].map(ours);
        // Short names are for readers of the documentation; a generic type may have them itself.
        let [short, prefix] = if generics.params.is_empty() {
            ["", ""]
        } else {
            ["outbox_", "Outbox"]
        };
        let [via, of_tx, of_messages] =
            ["Via", "Tx", "Messages"].map(|name| ours(&format!("{prefix}{name}")));
        let [of_outbox, of_message] = ["outbox", "message"]
            .map(|name| Lifetime::new(&format!("'{short}{name}"), Span::mixed_site()));
        let vis = span::visibility(vis);
        // What has no parameters lives as long as any reference to it.
        let outlives =
            (!generics.params.is_empty()).then(|| quote_spanned!(span=> where Self: #of_message));
        quote_spanned! {span=>
            #allow
            impl #impl_generics #ident #type_generics #bounds {
                /// Writes the message into the default outbox as part of the transaction open on `tx`.
                ///
                /// # Errors
                ///
                /// See `outbox::Outbox::publish`.
                #vis fn publish<#of_outbox, #via, #of_tx: #krate::Enlist<#via> + ?#private::Sized>(
                    &self,
                    #tx: &#of_outbox mut #of_tx,
                ) -> #private::Publishing<#of_outbox, #krate::Published> {
                    <Self as #krate::Publish>::publish(self, #tx)
                }

                /// A publication with options: delay, dedup key, headers, id, another outbox.
                #vis fn publication(&self) -> #krate::Publication<'_> {
                    <Self as #krate::Publish>::publication(self)
                }

                /// Writes many messages, in chunks of one statement each; the result is in their order.
                ///
                /// # Errors
                ///
                /// See `outbox::Outbox::publish`. Nothing is sent to the database if one of them is invalid.
                #vis fn publish_all<
                    #of_outbox,
                    #of_message,
                    #via,
                    #of_messages: #private::IntoIterator<Item = &#of_message Self>,
                    #of_tx: #krate::Enlist<#via> + ?#private::Sized,
                >(
                    #messages: #of_messages,
                    #tx: &#of_outbox mut #of_tx,
                ) -> #private::Publishing<#of_outbox, #private::Vec<#krate::Published>> #outlives {
                    <Self as #krate::Publish>::publish_all(#messages, #tx)
                }
            }
        }
    }
}
