//! Our derives see what other attribute macros make of the item.

use quote::quote;

use crate::message;

#[test]
fn a_macro_below_the_attribute_expands_before_our_derives() {
    let item = quote! {
        /// Documented.
        #[serde_with::serde_as]
        #[serde(rename_all = "camelCase")]
        struct Message {
            id: u64,
        }
    };
    let expansion = message::attribute(quote!(topic = "a"), item).to_string();
    let at = |text: &str| expansion.find(text).expect("it is there");
    assert!(at("serde_as") < at("derive"), "{expansion}");
    assert!(at("derive") < at("rename_all"), "{expansion}");
}

#[test]
fn a_raw_name_of_an_argument_is_the_same_name() {
    let item = quote!(
        struct Message {
            #[outbox(r#key)]
            id: u64,
        }
    );
    let item = message::attribute(quote!(topic = "a", r#validate = check), item);
    let derived = message::derive(item).to_string();
    assert!(derived.contains("check (outbox_this)"), "{derived}");
    assert!(derived.contains(":: Key > :: key"), "{derived}");
}
