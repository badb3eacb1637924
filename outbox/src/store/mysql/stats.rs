//! Statistics, and which relays live.

use std::{sync::Arc, time::Duration};

use sqlx::{MySqlConnection, Row as _};

use super::{
    super::row::RouteCount,
    Mysql,
    purge::all_routes,
    values::{micros, now, since_1970},
};
use crate::{Error, LiveRelay, error::Doing as _, operator::stats::served, publish::to_micros};

#[derive(Debug)]
pub(super) struct Statements {
    routes: Arc<str>,
    counts: Arc<str>,
    relays: Arc<str>,
}

const ROUTES: &str = concat!("SELECT route.topic, route.version FROM ", all_routes!());

/// Binds topic, version and the limit.
macro_rules! counted {
    ($($rows:expr),+) => {
        concat!(
            "(SELECT COUNT(*) FROM (SELECT 1 FROM `outbox` AS o FORCE INDEX (phase)
        WHERE o.topic = ? AND o.version = ? AND ",
            $($rows),+,
            " LIMIT ?) AS counted)"
        )
    };
}

/// Of one route. All by index, and no index entry is looked at once the limit is reached. Rows that are leased, or
/// were and never settled, are few: no more than what relays have in flight.
const COUNTS: &str = concat!(
    "SELECT ",
    counted!("o.phase = 'pending' AND o.phase_at <= ", now!()),
    ",\n    ",
    counted!("o.phase = 'leased' AND o.state = 'pending'"),
    ",\n    ",
    counted!("o.phase = 'pending' AND o.phase_at > ", now!()),
    ",\n    ",
    counted!("o.phase = 'leased' AND o.state = 'processing'"),
    ",\n    ",
    counted!(
        "o.phase = 'leased' AND o.state = 'processing' AND o.phase_at <= ",
        now!()
    ),
    ",\n    ",
    counted!("o.phase = 'delivered'"),
    ",\n    ",
    counted!("o.phase = 'dead'"),
    ",\n    ",
    micros!(now!()),
    " - ",
    micros!(
        "(SELECT o.phase_at FROM `outbox` AS o FORCE INDEX (phase)
        WHERE o.topic = ? AND o.version = ? AND o.phase = 'pending' AND o.phase_at <= ",
        now!(),
        " ORDER BY o.phase_at LIMIT 1)"
    ),
    ",\n    ",
    micros!(now!()),
    " - ",
    micros!(
        "(SELECT MIN(o.available_at) FROM `outbox` AS o FORCE INDEX (phase)
        WHERE o.topic = ? AND o.version = ? AND o.phase = 'leased' AND o.state = 'pending')"
    )
);

const RELAYS: &str = concat!(
    "SELECT id, routes, ",
    micros!("started_at"),
    ", ",
    micros!(now!()),
    " - ",
    micros!("seen_at"),
    "\nFROM `outbox_relays` WHERE seen_at > ",
    now!(),
    " - INTERVAL ? MICROSECOND ORDER BY started_at, id"
);

impl Statements {
    pub(super) fn new(render: impl Fn(&str) -> Arc<str>) -> Self {
        Self {
            routes: render(ROUTES),
            counts: render(COUNTS),
            relays: render(RELAYS),
        }
    }
}

const COUNTING: &str = "counting messages";

pub(super) async fn stats(store: &Mysql, limit: Option<u64>) -> Result<Vec<RouteCount>, Error> {
    let mut connection = store.pool.acquire().await.doing(COUNTING)?;
    let rows = super::query(&store.statements().stats.routes)
        .fetch_all(&mut *connection)
        .await
        .doing(COUNTING)?;
    let mut counts = Vec::with_capacity(rows.len());
    for row in &rows {
        let topic: String = row.try_get(0).doing(COUNTING)?;
        let version = row.try_get(1).doing(COUNTING)?;
        let count = count(store, &mut connection, topic, version, limit).await;
        counts.push(count.doing(COUNTING)?);
    }
    Ok(counts)
}

async fn count(
    store: &Mysql,
    connection: &mut MySqlConnection,
    topic: String,
    version: i32,
    limit: Option<u64>,
) -> Result<RouteCount, sqlx::Error> {
    let limit = limit.unwrap_or(u64::MAX);
    let mut query = super::query(&store.statements().stats.counts);
    for _ in 0..7 {
        query = query.bind(topic.clone()).bind(version).bind(limit);
    }
    for _ in 0..2 {
        query = query.bind(topic.clone()).bind(version);
    }
    let row = query.fetch_one(connection).await?;
    let number =
        |column: usize| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
    let age = |column: usize| row.try_get::<Option<i64>, _>(column);
    Ok(RouteCount {
        topic,
        version,
        due: number(0)? + number(1)?,
        scheduled: number(2)?,
        processing: number(3)?,
        lapsed: number(4)?,
        delivered: number(5)?,
        dead: number(6)?,
        oldest_due: age(7)?
            .max(age(8)?)
            .map(|age| Duration::from_micros(age.max(0).unsigned_abs())),
    })
}

pub(super) async fn relays(store: &Mysql, alive: Duration) -> Result<Vec<LiveRelay>, Error> {
    const DOING: &str = "listing relays";
    let query = super::query(&store.statements().stats.relays).bind(to_micros(alive));
    let rows = query.fetch_all(&store.pool).await.doing(DOING)?;
    let relays = rows.iter().map(|row| {
        Ok(LiveRelay {
            id: row.try_get(0)?,
            routes: served(row.try_get(1)?),
            started_at: since_1970(row.try_get(2)?),
            seen: Duration::from_micros(row.try_get::<i64, _>(3)?.max(0).unsigned_abs()),
        })
    });
    relays.collect::<Result<_, sqlx::Error>>().doing(DOING)
}

pub(super) async fn now(store: &Mysql) -> Result<i64, Error> {
    let row = sqlx::query(super::claim::NOW).fetch_one(&store.pool).await;
    row.and_then(|row| row.try_get(0))
        .doing("asking for the time")
}
