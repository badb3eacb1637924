//! `topic = "…"` or `topic = CONSTANT`.

use quote::ToTokens;
use syn::{Expr, ExprLit, Lit, LitStr};

use crate::{
    args::Arg,
    topic::{self, MAX_TOPIC, Malformed},
};

/// A topic as given in an attribute.
pub(crate) enum Topic {
    /// Held against the grammar here.
    Literal(LitStr),
    /// Held against the grammar by a `const fn` of the library.
    Constant(Expr),
}

impl Topic {
    pub(crate) fn parse(arg: &Arg) -> syn::Result<Self> {
        const FORM: &str = "topic = \"orders.placed\"";
        match arg.value(FORM)? {
            Expr::Lit(ExprLit {
                lit: Lit::Str(literal),
                ..
            }) => {
                let text = literal.value();
                topic::check(&text).map_err(|malformed| {
                    syn::Error::new_spanned(literal, explain(&text, malformed))
                })?;
                Ok(Self::Literal(literal.clone()))
            }
            literal @ Expr::Lit(_) => {
                Err(arg.wrong(literal, "a string literal or the path of a constant", FORM))
            }
            constant => Ok(Self::Constant(constant.clone())),
        }
    }
}

impl ToTokens for Topic {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        match self {
            Self::Literal(literal) => literal.to_tokens(tokens),
            Self::Constant(expr) => expr.to_tokens(tokens),
        }
    }
}

/// What is wrong with the topic, and what topics are.
fn explain(topic: &str, malformed: Malformed) -> String {
    let wrong = match malformed {
        Malformed::Empty => "empty topic".to_owned(),
        Malformed::TooLong(bytes) => {
            format!("topic of {bytes} bytes, at most {MAX_TOPIC} are allowed")
        }
        Malformed::Character(at) => {
            // The first byte that is wrong starts a character, since all before it are ASCII.
            let character = topic[at..].chars().next().unwrap_or('?');
            format!("invalid character {character:?} at byte {at} in topic {topic:?}")
        }
    };
    format!("{wrong}; topics are lowercase ASCII letters, digits, `-`, `_` and `.`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_character_and_where() {
        let wrong =
            |topic: &str| topic::check(topic).map_err(|malformed| explain(topic, malformed));
        assert_eq!(wrong("orders.placed-2_x"), Ok(()));
        let rules = "; topics are lowercase ASCII letters, digits, `-`, `_` and `.`";
        assert_eq!(
            wrong("Orders Placed"),
            Err(format!(
                "invalid character 'O' at byte 0 in topic \"Orders Placed\"{rules}"
            ))
        );
        assert_eq!(
            wrong("größe"),
            Err(format!(
                "invalid character 'ö' at byte 2 in topic \"größe\"{rules}"
            ))
        );
        assert_eq!(wrong(""), Err(format!("empty topic{rules}")));
        assert_eq!(wrong(&"a".repeat(255)), Ok(()));
        assert_eq!(
            wrong(&"a".repeat(256)),
            Err(format!(
                "topic of 256 bytes, at most 255 are allowed{rules}"
            ))
        );
    }
}
