//! What the role of a relay may do.

use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection, Row as _};

use super::{super::MissingRights, Mysql, rendered};
use crate::{Error, error::Doing as _};

/// The tables, and a statement for each thing that a relay does with them. EXPLAIN asks for the same rights as the
/// statement, and does nothing.
const NEEDED: [(&str, &[(&str, &str)]); 4] = [
    (
        "`outbox`",
        &[
            ("SELECT", "SELECT * FROM `outbox` WHERE id = ''"),
            ("UPDATE", "UPDATE `outbox` SET token = '' WHERE id = ''"),
            ("DELETE", "DELETE FROM `outbox` WHERE id = ''"),
        ],
    ),
    (
        "`outbox_history`",
        &[("SELECT", "SELECT * FROM `outbox_history`")],
    ),
    (
        "`outbox_relays`",
        &[
            ("SELECT", "SELECT * FROM `outbox_relays`"),
            (
                "INSERT",
                "INSERT INTO `outbox_relays` (id, routes) VALUES ('', '')",
            ),
            (
                "UPDATE",
                "UPDATE `outbox_relays` SET routes = '' WHERE id = ''",
            ),
            ("DELETE", "DELETE FROM `outbox_relays` WHERE id = ''"),
        ],
    ),
    (
        "`outbox_paused`",
        &[("SELECT", "SELECT * FROM `outbox_paused`")],
    ),
];

/// What it does on top while it purges.
const TO_PURGE: [(&str, &[(&str, &str)]); 2] = [
    (
        "`outbox_duties`",
        &[
            ("SELECT", "SELECT * FROM `outbox_duties`"),
            (
                "INSERT",
                "INSERT INTO `outbox_duties` (name, holder, held_until) VALUES ('', '', '2000-01-01')",
            ),
            (
                "UPDATE",
                "UPDATE `outbox_duties` SET holder = '' WHERE name = ''",
            ),
        ],
    ),
    (
        "`outbox_discarded`",
        &[
            ("SELECT", "SELECT * FROM `outbox_discarded`"),
            ("DELETE", "DELETE FROM `outbox_discarded` WHERE id = ''"),
        ],
    ),
];

const DOING: &str = "checking the relay's rights";

pub(super) async fn missing(store: &Mysql, purges: bool) -> Result<Option<MissingRights>, Error> {
    let table = &store.outbox.settings().table;
    let mut connection = store.pool.acquire().await.doing(DOING)?;
    let (mut missing, mut grants) = (Vec::new(), Vec::new());
    let role = role(&mut connection).await.doing(DOING)?;
    let needed = NEEDED.iter().chain(TO_PURGE.iter().filter(|_| purges));
    for (name, uses) in needed {
        let name = rendered(table, name);
        for (right, statement) in *uses {
            let sql = rendered(table, &format!("EXPLAIN {statement}"));
            match connection.execute(AssertSqlSafe(sql)).await {
                Ok(_) => {}
                // ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR
                Err(error) if matches!(super::code(&error), Some(1142 | 1143)) => {
                    missing.push(format!("{right} on {name}"));
                }
                // A table that is missing is found missing by the versions.
                Err(error) if super::super::is_missing_table(&error) => {}
                Err(error) => return Err(error).doing(DOING),
            }
        }
        let rights: Vec<_> = uses.iter().map(|(right, _)| *right).collect();
        grants.push(format!("GRANT {} ON {name} TO {role};", rights.join(", ")));
    }
    Ok((!missing.is_empty()).then(|| MissingRights {
        role,
        missing,
        grants: grants.join(" "),
    }))
}

/// As GRANT takes it.
async fn role(connection: &mut MySqlConnection) -> Result<String, sqlx::Error> {
    let row = sqlx::query("SELECT CURRENT_USER()")
        .fetch_one(connection)
        .await?;
    let account: String = row.try_get(0)?;
    Ok(match account.rsplit_once('@') {
        Some((user, host)) => format!("'{user}'@'{host}'"),
        None => format!("'{account}'"),
    })
}
