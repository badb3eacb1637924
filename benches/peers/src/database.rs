//! The same few helpers for both versions of sqlx that the peers are built on.

macro_rules! helpers {
    ($sqlx:ident) => {
        use $sqlx::postgres::PgPoolOptions;
        use $sqlx::{Connection, PgConnection, PgPool, Result};

        use crate::payload::Payload;

        /// A pool with all its connections open, which doesn't ping before each use.
        pub async fn pool(url: &str, connections: u32) -> Result<PgPool> {
            PgPoolOptions::new()
                .min_connections(connections)
                .max_connections(connections)
                .test_before_acquire(false)
                .connect(url)
                .await
        }

        pub async fn connect(url: &str) -> Result<PgConnection> {
            PgConnection::connect(url).await
        }

        pub async fn create_orders(connection: &mut PgConnection) -> Result<()> {
            let sql = "CREATE TABLE IF NOT EXISTS orders \
                       (id bigserial PRIMARY KEY, item text NOT NULL, quantity int NOT NULL)";
            $sqlx::query(sql).execute(connection).await?;
            Ok(())
        }

        pub async fn insert_order(connection: &mut PgConnection, payload: &Payload) -> Result<()> {
            $sqlx::query("INSERT INTO orders (item, quantity) VALUES ($1, $2)")
                .bind(&payload.item)
                .bind(payload.quantity)
                .execute(connection)
                .await?;
            Ok(())
        }

        pub async fn count(url: &str, sql: &'static str) -> Result<i64> {
            let mut connection = connect(url).await?;
            $sqlx::query_scalar(sql).fetch_one(&mut connection).await
        }
    };
}

pub mod v0_8 {
    helpers!(sqlx_0_8);
}

pub mod v0_9 {
    helpers!(sqlx);
}
