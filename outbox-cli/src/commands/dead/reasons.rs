//! `outbox dead reasons`: how many died of what.

use std::collections::HashMap;

use outbox::{DeadLetter, DeadLetters};
use serde_json::{Value, json};

use super::{chosen, none};
use crate::{
    args::{Filter, Reasons},
    database::Database,
    failure::Failure,
    show::{counted, cut, print, print_json, table, thousands},
};

/// How many letters are counted.
const MOST: u64 = 10_000;

/// How many letters are read at once.
const PAGE: u32 = 1_000;

/// How many reasons a dry run shows.
const FEW: usize = 20;

/// The longest text that is shown of an error: longer than in a list, where others stand beside it.
const LONGEST: usize = 240;

pub(super) async fn reasons(database: &Database, args: &Reasons) -> Result<(), Failure> {
    let tally = Tally::of(|| chosen(database, &args.filter)).await?;
    if args.json {
        print_json(&tally.as_json())?;
    }
    if tally.letters == 0 {
        return none(database, &args.filter, args.json).await;
    }
    match args.json {
        true => Ok(()),
        false => print(&format!("{}\n{}", tally.table(usize::MAX), tally.total(""))),
    }
}

/// What a change would be made to. It takes the oldest as far as its limit goes; here all of them count.
pub(super) async fn before_a_change(
    database: &Database,
    filter: &Filter,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let tally = Tally::of(|| chosen(database, filter)).await?;
    let mut text = format!("\n{}", tally.table(FEW));
    let limited = limit.is_some_and(|limit| limit < tally.letters);
    if tally.more || limited {
        text.push_str(&format!("\n{}", tally.total(" match")));
    }
    if limited {
        text.push_str("; --limit takes the oldest of them");
    }
    print(&text)
}

/// Dead letters by topic and last error.
struct Tally {
    /// The most frequent first.
    reasons: Vec<(Reason, u64)>,
    letters: u64,
    /// There are more letters than were counted.
    more: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Reason {
    topic: String,
    error: Option<String>,
}

impl Tally {
    /// Counts the latest of what is chosen.
    async fn of(chosen: impl Fn() -> DeadLetters) -> Result<Self, Failure> {
        let mut reasons = HashMap::new();
        let (mut letters, mut more) = (0, false);
        let mut last: Option<DeadLetter> = None;
        while !more {
            let mut page = chosen().limit(PAGE);
            if let Some(last) = &last {
                page = page.after(last);
            }
            let page = page.list().await?;
            for letter in &page {
                if letters == MOST {
                    more = true;
                    break;
                }
                letters += 1;
                *reasons.entry(Reason::of(letter)).or_insert(0) += 1;
            }
            if page.len() < PAGE as usize {
                break;
            }
            last = page.into_iter().last();
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then(a.cmp(b)));
        Ok(Self {
            reasons,
            letters,
            more,
        })
    }

    /// The first of the reasons, and how many there are besides them.
    fn table(&self, most: usize) -> String {
        let rows = self.reasons.iter().take(most).map(|(reason, count)| {
            let error = reason.error.as_deref().unwrap_or("-");
            vec![count.to_string(), reason.topic.clone(), cut(error, LONGEST)]
        });
        let mut text = table(&["COUNT", "TOPIC", "LAST ERROR"], rows);
        let left = self.reasons.len().saturating_sub(most);
        if left > 0 {
            let left = counted(left as u64, "reason");
            text.push_str(&format!("… and {left} more: outbox dead reasons\n"));
        }
        text
    }

    /// How many letters there are, and which of them were counted.
    fn total(&self, matching: &str) -> String {
        match self.more {
            true => format!(
                "{MOST}+ dead letters{matching}; the latest {} are counted here",
                thousands(MOST)
            ),
            false => format!("{}{matching}", counted(self.letters, "dead letter")),
        }
    }

    fn as_json(&self) -> Value {
        let reasons = self.reasons.iter().map(|(reason, count)| {
            json!({
                "topic": reason.topic,
                "error": reason.error,
                "count": count,
            })
        });
        json!({
            "reasons": reasons.collect::<Vec<_>>(),
            "counted": self.letters,
            "more": self.more,
        })
    }
}

impl Reason {
    fn of(letter: &DeadLetter) -> Self {
        Self {
            topic: letter.topic.clone(),
            error: letter.errors.last().map(|error| error.text.clone()),
        }
    }
}
