//! Statistics, and which relays live.

use std::{sync::Arc, time::Duration};

use sqlx::Row as _;

use super::{
    super::row::{RouteCount, wide},
    Postgres,
    purge::routes_with,
    time,
};
use crate::{Error, LiveRelay, error::Doing as _, operator::stats::served, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    stats: Arc<str>,
    relays: Arc<str>,
}

macro_rules! counted {
    ($rows:literal) => {
        concat!(
            r#"(SELECT count(*) FROM (SELECT FROM "public"."outbox" AS o
        WHERE o.topic = route.topic AND o.version = route.version AND "#,
            $rows,
            " LIMIT $1) AS few)"
        )
    };
}

/// All by index, and no index entry is looked at once the limit is reached. Rows that are leased, or
/// were and never settled, are few: no more than what relays have in flight.
const STATS: &str = concat!(
    "WITH route AS (\n    SELECT topic, version FROM (",
    routes_with!("state = 'pending' AND unsettled = 0"),
    ") AS waiting\n    UNION SELECT topic, version FROM (",
    routes_with!("unsettled > 0"),
    ") AS leased\n    UNION SELECT topic, version FROM (",
    routes_with!("state = 'delivered'"),
    ") AS delivered\n    UNION SELECT topic, version FROM (",
    routes_with!("state = 'dead'"),
    r#") AS dead
)
SELECT route.topic, route.version,
    "#,
    counted!("o.state = 'pending' AND o.unsettled = 0 AND o.available_at <= statement_timestamp()"),
    ",\n    ",
    counted!("o.unsettled > 0 AND o.state = 'pending'"),
    ",\n    ",
    counted!("o.state = 'pending' AND o.unsettled = 0 AND o.available_at > statement_timestamp()"),
    ",\n    ",
    counted!("o.unsettled > 0 AND o.state = 'processing'"),
    ",\n    ",
    counted!(
        "o.unsettled > 0 AND o.state = 'processing' AND o.leased_until <= statement_timestamp()"
    ),
    ",\n    ",
    counted!("o.state = 'delivered'"),
    ",\n    ",
    counted!("o.state = 'dead'"),
    r#",
    (extract(epoch FROM statement_timestamp() - LEAST(
        (SELECT o.available_at FROM "public"."outbox" AS o
         WHERE o.topic = route.topic AND o.version = route.version AND o.state = 'pending' AND o.unsettled = 0
             AND o.available_at <= statement_timestamp()
         ORDER BY o.available_at LIMIT 1),
        (SELECT min(o.available_at) FROM "public"."outbox" AS o
         WHERE o.topic = route.topic AND o.version = route.version AND o.unsettled > 0 AND o.state = 'pending')
    )) * 1000000)::bigint
FROM route"#
);

const RELAYS: &str = r#"
SELECT id, routes::text, (extract(epoch FROM started_at) * 1000000)::bigint,
    (extract(epoch FROM statement_timestamp() - seen_at) * 1000000)::bigint
FROM "public"."outbox_relays"
WHERE seen_at > statement_timestamp() - $1 * interval '1 microsecond'
ORDER BY started_at, id"#;

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            stats: render(STATS),
            relays: render(RELAYS),
        }
    }
}

pub(super) async fn stats(store: &Postgres, limit: Option<u64>) -> Result<Vec<RouteCount>, Error> {
    const DOING: &str = "counting messages";
    let query = super::query(&store.outbox, &store.statements().stats.stats).bind(limit.map(wide));
    let rows = store.run(query).await.doing(DOING)?;
    let counts = rows.iter().map(|row| {
        let number =
            |column: usize| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
        Ok(RouteCount {
            topic: row.try_get(0)?,
            version: row.try_get(1)?,
            due: number(2)? + number(3)?,
            scheduled: number(4)?,
            processing: number(5)?,
            lapsed: number(6)?,
            delivered: number(7)?,
            dead: number(8)?,
            oldest_due: row
                .try_get::<Option<i64>, _>(9)?
                .map(|age| Duration::from_micros(age.max(0).unsigned_abs())),
        })
    });
    counts.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn relays(store: &Postgres, alive: Duration) -> Result<Vec<LiveRelay>, Error> {
    const DOING: &str = "listing relays";
    let query =
        super::query(&store.outbox, &store.statements().stats.relays).bind(to_micros(alive));
    let rows = store.run(query).await.doing(DOING)?;
    let relays = rows.iter().map(|row| {
        Ok(LiveRelay {
            id: row.try_get(0)?,
            routes: served(row.try_get(1)?),
            started_at: time(row.try_get(2)?),
            seen: Duration::from_micros(row.try_get::<i64, _>(3)?.max(0).unsigned_abs()),
        })
    });
    relays.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn now(store: &Postgres) -> Result<i64, Error> {
    let now = Arc::from(super::claim::NOW);
    let rows = store.run(super::query(&store.outbox, &now)).await;
    rows.and_then(|rows| rows[0].try_get(0))
        .doing("asking for the time")
}
