//! What the role of a relay may do.

use std::sync::Arc;

use sqlx::Row as _;

use super::{super::MissingRights, DEFAULT_SCHEMA, Postgres};
use crate::{Error, error::Doing as _};

/// The tables, and what a relay does with them.
const NEEDED: [(&str, &str); 4] = [
    (r#""public"."outbox""#, "SELECT, UPDATE, DELETE"),
    (r#""public"."outbox_history""#, "SELECT"),
    (
        r#""public"."outbox_relays""#,
        "SELECT, INSERT, UPDATE, DELETE",
    ),
    (r#""public"."outbox_paused""#, "SELECT"),
];

/// What it does on top while it purges.
const TO_PURGE: [(&str, &str); 2] = [
    (r#""public"."outbox_duties""#, "SELECT, INSERT, UPDATE"),
    (r#""public"."outbox_discarded""#, "SELECT, DELETE"),
];

/// A table that is missing is found missing by the versions.
const MISSING: &str = r#"
SELECT current_user::text, needed.table_name, needed.privilege
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS needed (table_name, privilege, n)
WHERE to_regclass(needed.table_name) IS NOT NULL
    AND NOT has_table_privilege(to_regclass(needed.table_name), needed.privilege)
ORDER BY needed.n"#;

pub(super) async fn missing(
    store: &Postgres,
    purges: bool,
) -> Result<Option<MissingRights>, Error> {
    const DOING: &str = "checking the relay's rights";
    let table = &store.outbox.settings().table;
    let needed: Vec<_> = NEEDED
        .iter()
        .chain(TO_PURGE.iter().filter(|_| purges))
        .map(|(name, rights)| (table.render(name, DEFAULT_SCHEMA), *rights))
        .collect();
    let (tables, privileges): (Vec<_>, Vec<_>) = needed
        .iter()
        .flat_map(|(name, rights)| rights.split(", ").map(move |right| (name.clone(), right)))
        .unzip();
    let sql: Arc<str> = MISSING.into();
    let query = super::query(&store.outbox, &sql)
        .bind(tables)
        .bind(privileges);
    let rows = store.run(query).await.doing(DOING)?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let role: String = first.try_get(0).doing(DOING)?;
    let missing = rows.iter().map(|row| {
        let (name, right): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
        Ok(format!("{right} on {name}"))
    });
    let grants = needed
        .iter()
        .map(|(name, rights)| format!("GRANT {rights} ON {name} TO \"{role}\";"));
    let grants = grants.collect::<Vec<_>>().join(" ");
    Ok(Some(MissingRights {
        missing: missing.collect::<Result<_, sqlx::Error>>().doing(DOING)?,
        role,
        grants,
    }))
}
