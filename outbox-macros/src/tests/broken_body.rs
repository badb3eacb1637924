//! While a handler is half typed, an editor still has to find the function and its marker.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Item, ext::IdentExt as _};

use crate::handler;

#[test]
fn the_function_and_its_marker_outlive_any_body() {
    for body in [
        "{ order. }",
        "{ let id = ; }",
        "{ if order.id == }",
        "{ match order { OrderPlaced { id, .. } => } }",
        "{ outbox:: }",
        "{ bill(order, ) .await }",
        "{ 'a: loop { break 'a order. } + }",
    ] {
        // What is left open or closed too often is rustc's to report: no macro ever sees it.
        let body: TokenStream = body.parse().expect("tokens");
        let function: TokenStream = "pub async fn bill(order: OrderPlaced, _: Delivery)"
            .parse()
            .expect("tokens");
        let function = quote!(#function #body);
        let expansion = handler::attribute(TokenStream::new(), function.clone());

        let rest = beside(&expansion, &function);
        assert!(has_marker(&rest), "no marker beside {function}: {rest}");
        assert!(!rest.contains("compile_error"), "{rest}");
    }
}

#[test]
fn the_function_and_its_marker_outlive_a_mistake() {
    for (args, function) in [
        (
            quote!(timeout = "soon"),
            quote!(
                async fn bill(order: OrderPlaced) {}
            ),
        ),
        (
            quote!(),
            quote!(
                fn bill(order: &OrderPlaced) {}
            ),
        ),
        (
            quote!(tim),
            quote!(
                async fn bill() {}
            ),
        ),
    ] {
        let expansion = handler::attribute(args, function.clone());
        let rest = beside(&expansion, &function);
        assert!(has_marker(&rest), "no marker beside {function}: {rest}");
        assert!(rest.contains("compile_error"), "{rest}");
    }
}

/// What stands after the function, which comes first and as it was typed.
fn beside(expansion: &TokenStream, function: &TokenStream) -> String {
    let expansion = expansion.to_string();
    expansion
        .strip_prefix(&function.to_string())
        .expect("the function comes first, as it was typed")
        .to_owned()
}

fn has_marker(items: &str) -> bool {
    let items = syn::parse_str::<syn::File>(items).expect("items").items;
    items
        .iter()
        .any(|item| matches!(item, Item::Enum(marker) if marker.ident.unraw() == "bill"))
}
