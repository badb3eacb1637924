//! The server, a database for each work, and what the work cost there.

use std::{error::Error, time::Duration};

use outbox_benches::contest::cpu_time;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// The server that all share.
pub(crate) struct Stage {
    server: String,
    admin: PgConnection,
    /// The process of the server, of which its sessions are children.
    postmaster: String,
}

/// A database that exists for one work.
pub(crate) struct Scene {
    pub(crate) url: String,
    pub(crate) session: PgConnection,
}

/// What the server has done so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account {
    pub(crate) statements: f64,
    pub(crate) transactions: f64,
    pub(crate) wal_bytes: f64,
    pub(crate) cpu: Duration,
}

const DATABASE: &str = "speed";

impl Stage {
    /// The server that `OUTBOX_TEST_POSTGRES` names.
    pub(crate) async fn open() -> Result<Self, Box<dyn Error>> {
        let url = std::env::var("OUTBOX_TEST_POSTGRES").map_err(|_| "run this by benches/speed")?;
        let mut admin = PgConnection::connect(&url).await?;
        sqlx::query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            .execute(&mut admin)
            .await?;
        let folder: String = sqlx::query_scalar("SHOW data_directory")
            .fetch_one(&mut admin)
            .await?;
        let pid = std::fs::read_to_string(format!("{folder}/postmaster.pid"))?;
        let settings: Vec<(String, String)> = sqlx::query_as(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name IN \
             ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers') ORDER BY name",
        )
        .fetch_all(&mut admin)
        .await?;
        let settings = settings
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        println!("Postgres: {}", settings.collect::<Vec<_>>().join(", "));
        Ok(Self {
            server: url
                .rsplit_once('/')
                .map_or(url.clone(), |(server, _)| server.to_owned()),
            admin,
            postmaster: pid.lines().next().unwrap_or_default().to_owned(),
        })
    }

    /// An empty database.
    pub(crate) async fn scene(&mut self) -> Result<Scene, Box<dyn Error>> {
        for statement in [
            "DROP DATABASE IF EXISTS speed WITH (FORCE)",
            "CREATE DATABASE speed",
        ] {
            sqlx::query(statement).execute(&mut self.admin).await?;
        }
        let url = format!("{}/{DATABASE}", self.server);
        let session = PgConnection::connect(&url).await?;
        Ok(Scene { url, session })
    }

    /// Lets nothing that was done before weigh on what follows.
    pub(crate) async fn settle(&mut self, scene: &mut Scene) -> Result<(), Box<dyn Error>> {
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            sqlx::query(statement).execute(&mut scene.session).await?;
        }
        Ok(())
    }

    pub(crate) async fn account(&mut self) -> Result<Account, Box<dyn Error>> {
        // Sessions report what they have done within a second of being idle, or at their end.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let (statements, transactions, wal_bytes): (f64, f64, f64) = sqlx::query_as(
            "SELECT \
                (SELECT COALESCE(sum(calls), 0) FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid \
                 WHERE d.datname = 'speed')::float8, \
                (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'speed')::float8, \
                pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8",
        )
        .fetch_one(&mut self.admin)
        .await?;
        Ok(Account {
            statements,
            transactions,
            wal_bytes,
            cpu: self.cpu()?,
        })
    }

    /// The processor time of the server and of all its sessions, those that have ended included.
    fn cpu(&self) -> Result<Duration, Box<dyn Error>> {
        let mut total = cpu_time(&self.postmaster);
        let children = format!("/proc/{0}/task/{0}/children", self.postmaster);
        for child in std::fs::read_to_string(children)?.split_whitespace() {
            total += cpu_time(child);
        }
        Ok(total)
    }
}

impl Scene {
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<(), Box<dyn Error>> {
        sqlx::query(AssertSqlSafe(sql.to_owned()))
            .execute(&mut self.session)
            .await?;
        Ok(())
    }
}
