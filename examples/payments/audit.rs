//! What must be true at the end, whatever was killed on the way.

use std::{collections::BTreeSet, fmt::Debug};

use outbox::Outbox;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::bank::{ACCOUNTS, OPENING_CENTS, Outcome};

pub(crate) async fn check(
    pool: &PgPool,
    outbox: &Outbox,
    outcomes: &[Outcome],
) -> anyhow::Result<()> {
    let cents = async |what: &str| -> Result<i64, sqlx::Error> {
        let sql = format!("SELECT coalesce(sum(cents), 0)::bigint FROM {what}");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await
    };
    equal(
        "the money in all accounts is what it was",
        cents("accounts").await?,
        ACCOUNTS * OPENING_CENTS,
    )?;
    equal("the ledger's entries cancel out", cents("ledger").await?, 0)?;
    equal(
        "accounts that differ from the ledger",
        differing_accounts(pool).await?,
        0,
    )?;
    equal(
        "the receipts sum up to what the ledger says was paid",
        cents("receipts").await?,
        cents("ledger WHERE cents > 0").await?,
    )?;

    let (mut settled, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for outcome in outcomes {
        match outcome {
            Outcome::Settled(id) => settled.insert(*id),
            Outcome::Refused(id) => refused.insert(*id),
        };
    }
    let receipts: Vec<Uuid> = sqlx::query_scalar("SELECT message_id FROM receipts")
        .fetch_all(pool)
        .await?;
    let with_receipt = |of: &BTreeSet<Uuid>| receipts.iter().filter(|id| of.contains(id)).count();
    equal(
        "settled transfers with a receipt",
        with_receipt(&settled),
        settled.len(),
    )?;
    equal(
        "rolled back transfers with a receipt",
        with_receipt(&refused),
        0,
    )?;
    equal("receipts in all", receipts.len(), settled.len())?;
    equal(
        "dead letters",
        outbox.dead_letters(pool).list().await?.len(),
        0,
    )
}

/// Accounts whose money is not what they opened with and the ledger added.
async fn differing_accounts(pool: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT count(*) FROM accounts WHERE cents <> $1
             + (SELECT coalesce(sum(ledger.cents), 0) FROM ledger WHERE account_id = accounts.id)",
    )
    .bind(OPENING_CENTS)
    .fetch_one(pool)
    .await
}

fn equal<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> anyhow::Result<()> {
    anyhow::ensure!(
        found == expected,
        "{what}: found {found:?}, expected {expected:?}"
    );
    println!("   {what}: {found:?}");
    Ok(())
}
