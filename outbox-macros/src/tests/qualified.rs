//! Every path that a macro writes is absolute: whatever the user's module calls by the same name is
//! left alone.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use syn::{
    Expr, Token,
    parse::Parser as _,
    punctuated::Punctuated,
    visit::{self, Visit},
};

use super::samples;

#[test]
fn every_path_of_an_expansion_is_absolute() {
    for (name, tokens) in samples::all() {
        assert_eq!(unqualified(tokens), Vec::<String>::new(), "in `{name}`");
    }
}

#[test]
fn an_unqualified_path_would_be_found() {
    let found = |tokens| !unqualified(tokens).is_empty();
    assert!(found(quote!(
        const A: Option<()> = ::core::option::Option::None;
    )));
    assert!(found(quote!(
        const A: ::core::option::Option<()> = None;
    )));
    assert!(found(quote!(impl Clone for ::user::A {})));
    assert!(found(quote!(
        fn f() {
            outbox::publish()
        }
    )));
    assert!(found(quote!(
        fn f<T: ::user::A>() {
            T::a()
        }
    )));
    assert!(found(quote!(
        fn f() {
            unreachable!()
        }
    )));
    assert!(found(quote!(
        const A: &::core::primitive::str = ::core::concat!(file!(), ":");
    )));
    assert!(found(quote!(
        #[derive(Clone)]
        struct A;
    )));
    assert!(found(quote!(
        fn f(a: ::user::A) {
            a.to_string()
        }
    )));
    assert!(!found(quote!(
        fn f<T>(a: T) -> T {
            a
        }
    )));
}

/// The paths that mean what the surrounding module says, and calls of a method that may be a trait's.
fn unqualified(tokens: TokenStream) -> Vec<String> {
    let file: syn::File = syn::parse2(tokens).expect("an expansion is a list of items");
    let mut names = Names::default();
    names.visit_file(&file);
    let mut paths = Paths {
        names: names.0,
        found: Vec::new(),
    };
    paths.visit_file(&file);
    paths.found
}

/// The names that the expansion itself introduces: items, parameters, variables.
#[derive(Default)]
struct Names(HashSet<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let ident = match item {
            syn::Item::Const(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Fn(item) => &item.sig.ident,
            syn::Item::Static(item) => &item.ident,
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Type(item) => &item.ident,
            _ => return visit::visit_item(self, item),
        };
        self.0.insert(ident.to_string());
        visit::visit_item(self, item);
    }

    fn visit_type_param(&mut self, param: &'ast syn::TypeParam) {
        self.0.insert(param.ident.to_string());
        visit::visit_type_param(self, param);
    }

    fn visit_pat_ident(&mut self, pat: &'ast syn::PatIdent) {
        self.0.insert(pat.ident.to_string());
        visit::visit_pat_ident(self, pat);
    }
}

struct Paths {
    names: HashSet<String>,
    found: Vec<String>,
}

/// Methods that are the type's own, so that no trait in scope can take their place.
const INHERENT: &[&str] = &["with_timeout", "with_max_attempts", "with_backoff"];

/// Attributes of the language, and the helpers of derives.
const ATTRIBUTES: &[&str] = &[
    "allow",
    "cfg",
    "deprecated",
    "derive",
    "doc",
    "from_ref",
    "garde",
    "non_exhaustive",
    "outbox",
    "serde",
];

impl Paths {
    fn judge(&mut self, path: &syn::Path) {
        let first = path.segments.first().map(|first| first.ident.to_string());
        let first = first.unwrap_or_default();
        let own = first == "self" || (path.segments.len() == 1 && self.names.contains(&first));
        if path.leading_colon.is_none() && first != "Self" && !own {
            self.found.push(path.to_token_stream().to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.judge(path);
        visit::visit_path(self, path);
    }

    // `pub(crate)` is no name that could be taken.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    // The body of the user's own function is the user's.
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if function.sig.ident != "send_receipt" {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_attribute(&mut self, attr: &'ast syn::Attribute) {
        if !ATTRIBUTES.iter().any(|known| attr.path().is_ident(known)) {
            self.judge(attr.path());
        }
        if attr.path().is_ident("derive") {
            let derives =
                attr.parse_args_with(Punctuated::<syn::Path, Token![,]>::parse_terminated);
            for derive in derives.expect("a list of derives") {
                self.judge(&derive);
            }
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.judge(&call.path);
        let args = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(call.tokens.clone());
        for arg in args.expect("the arguments of a macro are expressions") {
            self.visit_expr(&arg);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        if !INHERENT.contains(&method.as_str()) {
            self.found.push(format!(".{method}()"));
        }
        visit::visit_expr_method_call(self, call);
    }
}
