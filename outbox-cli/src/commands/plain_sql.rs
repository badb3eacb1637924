//! `outbox plain-sql`.

use crate::{
    database::{Database, each},
    failure::Failure,
    show::print,
};

pub(crate) fn plain_sql(database: &Database) -> Result<(), Failure> {
    print(&each!(database, pool => database.outbox.plain_sql(pool))?)
}
