//! Judges the signature: can this function be called with a message and what a delivery provides.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, ExprPath, FnArg, GenericParam, Generics, ReturnType, Safety, Signature, Type,
    Visibility, spanned::Spanned as _,
};

use super::parse::{Parsed, Policy};
use crate::{errors::Errors, krate::Krate, span::visible, topic_arg::Topic};

/// A handler, as far as it can be one; what is missing has been reported.
pub(super) struct Handler {
    pub(super) krate: Krate,
    pub(super) attrs: Vec<Attribute>,
    pub(super) vis: Visibility,
    /// The function's name.
    pub(super) function: Ident,
    /// The marker type's name.
    pub(super) marker: Ident,
    /// Empty after an error.
    pub(super) arguments: Vec<Argument>,
    pub(super) output: Output,
    pub(super) topic: Option<Topic>,
    pub(super) policy: Policy,
    pub(super) on_error: Option<ExprPath>,
}

/// One argument: the message, or what else the function needs.
pub(super) struct Argument {
    pub(super) ty: Type,
}

pub(super) enum Output {
    /// Nothing is written after the arguments.
    Unit,
    Type(Box<Type>),
    /// An `impl Trait`, which can't be named again.
    Opaque(Span),
    /// What a function without `async` returns. Attributes that expand before ours may have made it
    /// of an `async fn`, with a boxed future.
    Future(Box<Type>),
}

/// Judges the function; `None` for a method, beside which no type can stand.
pub(super) fn check(parsed: Parsed, errors: &mut Errors) -> Option<Handler> {
    let Parsed {
        krate,
        attrs,
        vis,
        signature,
        topic,
        policy,
        on_error,
        name,
    } = parsed;
    if let Some(receiver) = signature.receiver() {
        errors.at(
            receiver,
            "a handler must be a free function: move it out of the `impl`; the message is its first argument",
        );
        return None;
    }
    refuse_qualifiers(&signature, errors);
    refuse_generics(&signature.generics, errors);
    let function = signature.ident.clone();
    let output = output(&signature);
    if let (Some(path), Output::Unit) = (&on_error, &output) {
        errors.at(path, format!("`{function}` returns no error to decide about; return a `Result`, or remove `on_error`"));
    }
    let marker = visible(name.as_ref().unwrap_or(&function));
    let arguments = arguments(signature, errors);
    Some(Handler {
        krate,
        attrs,
        vis,
        function,
        marker,
        arguments,
        output,
        topic,
        policy,
        on_error,
    })
}

fn refuse_qualifiers(signature: &Signature, errors: &mut Errors) {
    let Signature {
        constness,
        asyncness,
        safety,
        abi,
        fn_token,
        output,
        ..
    } = signature;
    if let Some(constness) = constness {
        errors.at(constness, "a handler can't be `const`; remove it");
    }
    if let Safety::Unsafe(token) = safety {
        errors.at(
            token,
            "a handler can't be `unsafe`: the relay could not uphold what it asks for; remove it",
        );
    }
    if let Some(abi) = abi {
        errors.at(abi, "a handler can't be `extern`; remove it");
    }
    let returns_nothing = matches!(output, ReturnType::Default);
    if asyncness.is_none() && constness.is_none() && returns_nothing {
        errors.at(
            fn_token,
            "a handler must be an `async fn`; write `async` before `fn`",
        );
    }
}

fn refuse_generics(generics: &Generics, errors: &mut Errors) {
    for param in &generics.params {
        let text = match param {
            GenericParam::Lifetime(_) => {
                "a handler can't have lifetimes: it owns its message; take everything by value"
            }
            _ => {
                "a handler can't be generic: it serves the topic of one message; use a concrete type"
            }
        };
        errors.at(param, text);
    }
}

fn output(signature: &Signature) -> Output {
    match &signature.output {
        ReturnType::Default => Output::Unit,
        ReturnType::Type(_, ty) if says(ty, "impl") => Output::Opaque(ty.span()),
        ReturnType::Type(_, ty) if signature.asyncness.is_none() => Output::Future(ty.clone()),
        ReturnType::Type(_, ty) => Output::Type(ty.clone()),
    }
}

fn arguments(signature: Signature, errors: &mut Errors) -> Vec<Argument> {
    let generic = !signature.generics.params.is_empty();
    let function = &signature.ident;
    if signature.inputs.is_empty() {
        errors.at(
            function,
            format!("`{function}` takes no message; its first argument is the message, by value: `{function}(message: MyMessage)`"),
        );
    }
    let mut arguments = Vec::new();
    for (n, input) in signature.inputs.into_iter().enumerate() {
        match input {
            // Refused before.
            FnArg::Receiver(_) => {}
            FnArg::Typed(argument) => {
                for attr in argument
                    .attrs
                    .iter()
                    .filter(|attr| attr.path().is_ident("cfg"))
                {
                    errors.at(attr, "an argument of a handler can't be conditional; put the `cfg` on two handlers");
                }
                // Where the handler's generics are refused, a type that uses them needs no second word.
                if !generic {
                    refuse_borrow(&argument.ty, n == 0, errors);
                }
                arguments.push(Argument { ty: *argument.ty });
            }
        }
    }
    arguments
}

fn refuse_borrow(ty: &Type, is_message: bool, errors: &mut Errors) {
    let what = if is_message {
        "the message"
    } else {
        "what a delivery provides"
    };
    let bare = bare(ty);
    if let Type::Reference(reference) = bare {
        let owned = crate::span::text(&reference.elem);
        errors.at(
            ty,
            format!("a handler takes {what} by value; write `{owned}`"),
        );
    } else if says(ty, "impl") {
        errors.at(ty, format!("a handler names the type of {what}: `impl Trait` could be any; write a concrete type"));
    } else if borrows(ty.to_token_stream()) {
        errors.at(
            ty,
            format!(
                "a handler owns {what}: a type with a lifetime can't be taken; use one without"
            ),
        );
    } else if matches!(bare, Type::Infer(_)) {
        errors.at(
            ty,
            format!("a handler names the type of {what}; write it instead of `_`"),
        );
    }
}

/// The type without the parentheses and invisible groups around it.
fn bare(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            other => return other,
        };
    }
}

/// Whether this word stands anywhere in the type.
fn says(ty: &Type, word: &str) -> bool {
    fn anywhere(tokens: TokenStream, word: &str) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == word,
            TokenTree::Group(group) => anywhere(group.stream(), word),
            _ => false,
        })
    }
    anywhere(ty.to_token_stream(), word)
}

/// Whether a lifetime other than `'static` stands in the type, outside of the arguments of a
/// function pointer or `Fn(..)`, where it is the function's own.
fn borrows(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // `for<'a>` introduces lifetimes that need nothing from outside.
            TokenTree::Ident(ident) if ident == "for" => return false,
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                return !is_static(tokens.peek()) || borrows(tokens.collect());
            }
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::None && borrows(group.stream()) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

fn is_static(name: Option<&TokenTree>) -> bool {
    matches!(name, Some(TokenTree::Ident(name)) if name == "static")
}
