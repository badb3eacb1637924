//! Statistics, and which relays live.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;

use super::{
    super::row::{RouteCount, wide},
    Sqlite, now,
    purge::routes_with,
    values::{millis, shown, time, uuid},
};
use crate::{Error, LiveRelay, error::Doing as _, operator::stats::served};

#[derive(Debug)]
pub(super) struct Statements {
    stats: Arc<str>,
    relays: Arc<str>,
}

macro_rules! counted {
    ($($rows:expr),+) => {
        concat!(
            r#"(SELECT count(*) FROM (SELECT 1 FROM "main"."outbox" AS o
        WHERE o.topic = route.topic AND o.version = route.version AND "#,
            $($rows),+,
            " LIMIT ifnull(?1, -1)))"
        )
    };
}

/// All by index, and no index entry is looked at once the limit is reached. Rows that are leased, or
/// were and never settled, are few: no more than what relays have in flight.
const STATS: &str = concat!(
    "WITH route AS (\n    SELECT topic, version FROM (",
    routes_with!("state = 'pending' AND unsettled = 0"),
    ")\n    UNION SELECT topic, version FROM (",
    routes_with!("unsettled > 0"),
    ")\n    UNION SELECT topic, version FROM (",
    routes_with!("state = 'delivered'"),
    ")\n    UNION SELECT topic, version FROM (",
    routes_with!("state = 'dead'"),
    ")\n)\nSELECT route.topic, route.version,\n    ",
    counted!(
        "o.state = 'pending' AND o.unsettled = 0 AND o.available_at <= ",
        now!()
    ),
    ",\n    ",
    counted!("o.unsettled > 0 AND o.state = 'pending'"),
    ",\n    ",
    counted!(
        "o.state = 'pending' AND o.unsettled = 0 AND o.available_at > ",
        now!()
    ),
    ",\n    ",
    counted!("o.unsettled > 0 AND o.state = 'processing'"),
    ",\n    ",
    counted!(
        "o.unsettled > 0 AND o.state = 'processing' AND o.leased_until <= ",
        now!()
    ),
    ",\n    ",
    counted!("o.state = 'delivered'"),
    ",\n    ",
    counted!("o.state = 'dead'"),
    ",\n    ",
    now!(),
    r#" - (SELECT o.available_at FROM "main"."outbox" AS o
        WHERE o.topic = route.topic AND o.version = route.version AND o.state = 'pending' AND o.unsettled = 0
            AND o.available_at <= "#,
    now!(),
    r#"
        ORDER BY o.available_at LIMIT 1),
    "#,
    now!(),
    r#" - (SELECT min(o.available_at) FROM "main"."outbox" AS o
        WHERE o.topic = route.topic AND o.version = route.version AND o.unsettled > 0 AND o.state = 'pending')
FROM route"#
);

const RELAYS: &str = concat!(
    r#"
SELECT id, routes, started_at, "#,
    now!(),
    r#" - seen_at
FROM "main"."outbox_relays"
WHERE seen_at > "#,
    now!(),
    r#" - ?1
ORDER BY started_at, id"#
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            stats: render(STATS),
            relays: render(RELAYS),
        }
    }
}

pub(super) async fn stats(store: &Sqlite, limit: Option<u64>) -> Result<Vec<RouteCount>, Error> {
    const DOING: &str = "counting messages";
    let query = super::query(&store.statements().stats.stats).bind(limit.map(wide));
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let counts = rows.iter().map(|row| {
        let number =
            |column: usize| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
        let age = |column: usize| row.try_get::<Option<i64>, _>(column);
        Ok(RouteCount {
            topic: shown(row, 0)?.unwrap_or_default(),
            version: row.try_get(1)?,
            due: number(2)? + number(3)?,
            scheduled: number(4)?,
            processing: number(5)?,
            lapsed: number(6)?,
            delivered: number(7)?,
            dead: number(8)?,
            oldest_due: age(9)?
                .max(age(10)?)
                .map(|age| Duration::from_millis(age.max(0).unsigned_abs())),
        })
    });
    counts.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn relays(store: &Sqlite, alive: Duration) -> Result<Vec<LiveRelay>, Error> {
    const DOING: &str = "listing relays";
    let query = super::query(&store.statements().stats.relays).bind(millis(alive));
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let relays = rows.iter().map(|row| {
        Ok(LiveRelay {
            id: uuid(row, 0)?,
            routes: served(&shown(row, 1)?.unwrap_or_default()),
            started_at: time(row.try_get(2)?),
            seen: Duration::from_millis(row.try_get::<i64, _>(3)?.max(0).unsigned_abs()),
        })
    });
    relays.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn now(store: &Sqlite) -> Result<i64, Error> {
    let row = sqlx::query(super::claim::NOW).fetch_one(&store.pool).await;
    let millis: i64 = row
        .and_then(|row| row.try_get(0))
        .doing("asking for the time")?;
    Ok(millis * 1_000)
}
