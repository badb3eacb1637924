//! On a MariaDB of its own, which keeps what it commits.

use std::{str::FromStr as _, time::Instant};

use outbox_tests::Server;
use sqlx::{
    AssertSqlSafe, Connection as _, MySqlConnection, MySqlPool, Row as _,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
};
use uuid::Uuid;

use super::{Failure, MESSAGES, OrderPlaced, Rates, TRANSACTIONS, complete, drained, per_second};

const SETTINGS: [&str; 4] = [
    "innodb-flush-log-at-trx-commit=1",
    "innodb-doublewrite=1",
    "innodb-buffer-pool-size=1G",
    "innodb-log-file-size=1G",
];

pub(super) async fn round(by_hand: bool) -> Result<Rates, Failure> {
    let server = Server::mariadb(&SETTINGS);
    let options = MySqlConnectOptions::from_str(&server.url())?;
    let mut admin = MySqlConnection::connect_with(&options).await?;
    sqlx::raw_sql("CREATE DATABASE shop")
        .execute(&mut admin)
        .await?;
    let pool = MySqlPoolOptions::new()
        .connect_with(options.database("shop"))
        .await?;
    outbox::migrate(&pool).await?;
    sqlx::raw_sql("CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, item TEXT NOT NULL)")
        .execute(&pool)
        .await?;

    let began = Instant::now();
    for order in 0..TRANSACTIONS {
        publish(&pool, order, by_hand).await?;
    }
    let published = per_second(TRANSACTIONS, began);

    sqlx::raw_sql("DELETE FROM outbox").execute(&pool).await?;
    let orders: Vec<_> = (0..MESSAGES).map(OrderPlaced::new).collect();
    let mut tx = pool.begin().await?;
    OrderPlaced::publish_all(&orders, &mut tx).await?;
    tx.commit().await?;
    let began = Instant::now();
    let handled = match by_hand {
        true => drain(&pool).await?,
        false => drained(&pool).await?,
    };
    let drained = per_second(MESSAGES, began);
    complete(handled)?;
    pool.close().await;
    Ok([published, drained])
}

async fn publish(pool: &MySqlPool, order: u64, by_hand: bool) -> Result<(), Failure> {
    let mut tx = pool.begin().await?;
    sqlx::query("INSERT INTO orders (item) VALUES ('teapot')")
        .execute(&mut *tx)
        .await?;
    let order = OrderPlaced::new(order);
    if by_hand {
        sqlx::query("INSERT INTO outbox (id, topic, payload) VALUES (?, 'orders.placed', ?)")
            .bind(Uuid::now_v7())
            .bind(order.json())
            .execute(&mut *tx)
            .await?;
    } else {
        order.publish(&mut tx).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Claim and settle by hand, one after the other: the rows are leased, and their token is the fence of the DELETE.
async fn drain(pool: &MySqlPool) -> Result<u64, Failure> {
    let mut connection = pool.acquire().await?;
    sqlx::raw_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        .execute(&mut *connection)
        .await?;
    let mut handled = 0;
    loop {
        let token = Uuid::new_v4();
        let ids = claim(&mut connection, token).await?;
        if ids.is_empty() {
            return Ok(handled);
        }
        handled += ids.len() as u64;
        let sql = format!(
            "DELETE FROM outbox WHERE id IN ({}) AND token = x'{}' AND state = 'processing'",
            ids.join(", "),
            token.simple()
        );
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut *connection)
            .await?;
    }
}

async fn claim(connection: &mut MySqlConnection, token: Uuid) -> Result<Vec<String>, sqlx::Error> {
    let mut tx = connection.begin().await?;
    let rows = sqlx::query(
        "SELECT id, payload FROM outbox FORCE INDEX (phase) \
         WHERE topic = 'orders.placed' AND version = 1 AND phase = 'pending' AND phase_at <= UTC_TIMESTAMP(6) \
         ORDER BY phase_at, id LIMIT 500 FOR UPDATE SKIP LOCKED",
    )
    .fetch_all(&mut *tx)
    .await?;
    let ids: Vec<_> = rows
        .iter()
        .map(|row| format!("x'{}'", row.get::<Uuid, _>(0).simple()))
        .collect();
    if !ids.is_empty() {
        let sql = format!(
            "UPDATE outbox SET state = 'processing', attempts = attempts + 1, unsettled = 1, token = x'{}', \
             leased_until = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND WHERE id IN ({}) AND state = 'pending'",
            token.simple(),
            ids.join(", ")
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(ids)
}
