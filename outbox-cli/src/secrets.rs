//! URLs of databases hold passwords: none is printed, wherever on the command line it was put by mistake.

use std::borrow::Cow;

/// The text without any URL of the command line or the environment.
pub(crate) fn without(text: &str) -> String {
    let given = std::env::args_os().skip(1);
    let given = given.map(|arg| arg.to_string_lossy().into_owned());
    let named = crate::url::VARIABLES.into_iter();
    let named = named.filter_map(|name| std::env::var(name).ok());
    hide(text, given.chain(named))
}

fn hide(text: &str, given: impl Iterator<Item = String>) -> String {
    let mut secrets: Vec<_> = given
        .filter_map(|arg| secret(&arg).map(str::to_owned))
        .collect();
    // One may be the beginning of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut text = Cow::Borrowed(text);
    for secret in &secrets {
        if text.contains(secret) {
            text = text.replace(secret, "<URL>").into();
        }
    }
    text.into_owned()
}

/// What may hold a password, in an argument such as `--flag=value` or `value`.
fn secret(arg: &str) -> Option<&str> {
    let value = match arg.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') => value,
        _ => arg,
    };
    let holds =
        value.contains("://") || value.contains("password=") || value.starts_with("postgres");
    // A word such as `postgres` is no URL.
    let long = value.contains([':', '=', '@']);
    (holds && long).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_hidden_wherever_they_stand() {
        for arg in [
            "postgres://app:hunter2@host/db",
            "--pooler=postgres://app:hunter2@host/db",
            "postgresql:app:hunter2@host",
            "host=db password=hunter2",
            "https://app:hunter2@host",
        ] {
            let value = arg.strip_prefix("--pooler=").unwrap_or(arg);
            let text = format!("unexpected argument '{value}' found");
            let hidden = hide(&text, [arg.to_owned()].into_iter());
            assert_eq!(hidden, "unexpected argument '<URL>' found");
        }
    }

    #[test]
    fn of_two_urls_the_longer_is_hidden_whole() {
        let args = ["postgres://a:b", "postgres://a:b@host"].map(str::to_owned);
        assert_eq!(hide("postgres://a:b@host", args.into_iter()), "<URL>");
    }

    #[test]
    fn other_arguments_are_shown() {
        for arg in ["postgres", "o-1", "--key=postgres", "sqlite:app.db", ""] {
            assert_eq!(hide(arg, [arg.to_owned()].into_iter()), arg);
        }
    }
}
