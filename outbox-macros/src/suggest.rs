//! "did you mean": the nearest valid name, and the list of all.

/// The end of an error about an unknown name: a near miss if there is one, and what is valid.
pub(crate) fn repair(given: &str, valid: &[&str]) -> String {
    let list = list(valid);
    match nearest(given, valid) {
        Some(name) => format!("did you mean `{name}`? expected {list}"),
        None => format!("expected {list}"),
    }
}

/// `` `a` ``; `` `a` or `b` ``; `` one of `a`, `b`, `c` ``.
fn list(valid: &[&str]) -> String {
    let quoted: Vec<_> = valid.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [one, two] => format!("{one} or {two}"),
        many => format!("one of {}", many.join(", ")),
    }
}

fn nearest<'a>(given: &str, valid: &[&'a str]) -> Option<&'a str> {
    let near = |name: &&&str| distance(given, name) <= name.len().max(given.len()) / 3;
    valid
        .iter()
        .filter(near)
        .min_by_key(|name| distance(given, name))
        .copied()
}

/// Levenshtein's distance over bytes; the names are short.
fn distance(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::repair;

    #[test]
    fn a_near_miss_is_suggested_and_a_far_one_is_not() {
        assert_eq!(
            repair("topik", &["topic", "crate"]),
            "did you mean `topic`? expected `topic` or `crate`"
        );
        assert_eq!(repair("colour", &["topic"]), "expected `topic`");
    }
}
