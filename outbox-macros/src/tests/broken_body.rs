//! While a handler's body is half typed, an editor still has to find the function and its marker.

use proc_macro2::TokenStream;
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
        let function = quote::quote!(#function #body);
        let expansion = handler::attribute(TokenStream::new(), function.clone());

        let (expansion, function) = (expansion.to_string(), function.to_string());
        let rest = expansion
            .strip_prefix(&function)
            .expect("the function comes first, as it was typed");
        let items = syn::parse_str::<syn::File>(rest).expect("items").items;
        assert!(
            items
                .iter()
                .any(|item| matches!(item, Item::Enum(marker) if marker.ident.unraw() == "bill")),
            "no marker beside {function}: {rest}"
        );
        assert!(!rest.contains("compile_error"), "{rest}");
    }
}
