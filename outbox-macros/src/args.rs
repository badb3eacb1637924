//! The arguments of an attribute: `name` and `name = value`, separated by commas.

use proc_macro2::{Ident, TokenStream};
use syn::{
    Attribute, Expr, ExprLit, Lit, LitStr, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

use crate::{errors::Errors, span::unraw, suggest::repair};

/// One argument.
pub(crate) struct Arg {
    pub(crate) name: Ident,
    pub(crate) value: Option<Expr>,
}

/// The arguments of one attribute, each given once and each known.
#[derive(Default)]
pub(crate) struct Args {
    given: Vec<Arg>,
    saw_wrong: bool,
}

impl Args {
    /// Parses arguments. `valid` lists the names there are; `of` names the attribute in errors.
    pub(crate) fn parse(
        tokens: TokenStream,
        of: &str,
        valid: &[&str],
        errors: &mut Errors,
    ) -> Self {
        let mut args = Self::default();
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                match parse_one(input, valid) {
                    Ok(arg) => args.add(arg, of, valid, errors),
                    Err(error) => {
                        args.saw_wrong = true;
                        errors.push(error);
                        skip_to_comma(input);
                    }
                }
                if !input.is_empty() && input.parse::<Token![,]>().is_err() {
                    errors.push(input.error("expected `,` between two arguments"));
                    skip_to_comma(input);
                    let _: Option<Token![,]> = input.parse()?;
                }
            }
            Ok(())
        };
        // The parser reports its errors itself and reads everything, so that it can't fail.
        let _: syn::Result<()> = parser.parse2(tokens);
        args
    }

    /// Parses the arguments of all helper attributes called `name`.
    pub(crate) fn of_attributes(
        attrs: &[Attribute],
        name: &str,
        of: &str,
        valid: &[&str],
        errors: &mut Errors,
    ) -> Self {
        let mut tokens = TokenStream::new();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident(name)) {
            if let Some(list) = errors.ok(attr.meta.require_list()) {
                let list = &list.tokens;
                tokens.extend(quote::quote!(#list,));
            }
        }
        Self::parse(tokens, of, valid, errors)
    }

    fn add(&mut self, arg: Arg, of: &str, valid: &[&str], errors: &mut Errors) {
        let name = unraw(&arg.name);
        if !valid.contains(&name.as_str()) {
            self.saw_wrong = true;
            errors.at(
                &arg.name,
                format!(
                    "unknown argument `{name}` of {of}; {}",
                    repair(&name, valid)
                ),
            );
        } else if self
            .given
            .iter()
            .any(|earlier| unraw(&earlier.name) == name)
        {
            errors.at(&arg.name, format!("`{name}` is given twice; remove one"));
        } else {
            self.given.push(arg);
        }
    }

    /// Whether an argument or its name was not valid, which has been reported.
    pub(crate) fn saw_wrong(&self) -> bool {
        self.saw_wrong
    }

    /// Takes the argument of this name out.
    pub(crate) fn take(&mut self, name: &str) -> Option<Arg> {
        let at = self.given.iter().position(|arg| unraw(&arg.name) == name)?;
        Some(self.given.swap_remove(at))
    }
}

fn parse_one(input: ParseStream<'_>, valid: &[&str]) -> syn::Result<Arg> {
    if valid.contains(&"topic")
        && let Ok(text) = input.fork().parse::<LitStr>()
    {
        let topic = text.token();
        return Err(input.error(format!(
            "expected `name = value`; if this is the topic, write `topic = {topic}`"
        )));
    }
    if !input.peek(Ident::peek_any) {
        return Err(input.error("expected an argument: `name` or `name = value`"));
    }
    let name = Ident::parse_any(input)?;
    let value = if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(syn::Error::new_spanned(
                &name,
                format!("`{name}` has no value after `=`"),
            ));
        }
        Some(input.parse()?)
    } else {
        None
    };
    Ok(Arg { name, value })
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        // Any token tree can be read while there is one.
        let _: syn::Result<proc_macro2::TokenTree> = input.parse();
    }
}

impl Arg {
    /// The value, or an error that shows its form.
    pub(crate) fn value(&self, form: &str) -> syn::Result<&Expr> {
        let missing = || {
            syn::Error::new_spanned(
                &self.name,
                format!("`{}` needs a value: `{form}`", self.name),
            )
        };
        self.value.as_ref().map(ungroup).ok_or_else(missing)
    }

    /// A string literal.
    pub(crate) fn text(&self, form: &str) -> syn::Result<&LitStr> {
        match self.value(form)? {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Ok(text),
            other => Err(self.wrong(other, "a string literal", form)),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, form: &str) -> syn::Result<bool> {
        match self.value(form)? {
            Expr::Lit(ExprLit {
                lit: Lit::Bool(flag),
                ..
            }) => Ok(flag.value),
            other => Err(self.wrong(other, "`true` or `false`", form)),
        }
    }

    /// A whole number from 1 up.
    pub(crate) fn count(&self, form: &str) -> syn::Result<u32> {
        let value = self.value(form)?;
        if let Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) = value
            && let Ok(number @ 1..) = number.base10_parse::<u32>()
        {
            return Ok(number);
        }
        Err(self.wrong(value, "a whole number from 1 up", form))
    }

    /// The path of a function or constant.
    pub(crate) fn path(&self, form: &str) -> syn::Result<&syn::ExprPath> {
        match self.value(form)? {
            Expr::Path(path) => Ok(path),
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Err(syn::Error::new_spanned(
                text,
                format!("write the path of `{}` without quotes: `{form}`", self.name),
            )),
            other => Err(self.wrong(other, "a path", form)),
        }
    }

    pub(crate) fn wrong(&self, value: &Expr, expected: &str, form: &str) -> syn::Error {
        syn::Error::new_spanned(value, format!("`{}` takes {expected}: `{form}`", self.name))
    }
}

/// A value that came through a `macro_rules!` fragment is wrapped in an invisible group.
pub(crate) fn ungroup(mut expr: &Expr) -> &Expr {
    while let Expr::Group(group) = expr {
        expr = &group.expr;
    }
    expr
}
