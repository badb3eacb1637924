//! The operator's side: each thing in its own file.

use std::time::Duration;

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::{
    super::{
        RouteCount,
        operate::{Action, Chunk, Corrected, Filter, Operate, Page, Swept, operate},
    },
    Mysql, dead_letters, register, stats,
};
use crate::{DeadLetter, Discarded, Error, Inspected, LiveRelay, Paused};

operate!(Mysql);
