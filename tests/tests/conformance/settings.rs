//! Settings that can't work are refused where they are made, in words.

use std::time::Duration;

use outbox::{Outbox, Relay};
use outbox_tests::{
    Db, Lab, each,
    lab::{ALL, TASKS},
    on_every_database, try_relay,
    wait::{LONG, millis, secs, within},
};
use sqlx::{PgPool, SqlitePool, postgres::PgPoolOptions};

on_every_database! {
    all: [
        zero_and_absurd_values_are_refused,
        the_edges_of_the_range_are_accepted,
        a_closed_pool_is_an_error,
        a_router_without_state_needs_none,
    ],
    direct: [a_server_that_is_not_there_is_no_secret],
    sqlite: [a_file_that_cant_be_opened_is_an_error_at_the_start]
}

async fn zero_and_absurd_values_are_refused(db: Db) {
    let lab = Lab::content();
    macro_rules! refused {
        ($($setting:ident($($value:expr),*)),* $(,)?) => {$(
            let error = try_relay!(db, TASKS, lab; $setting($($value),*)).expect_err(stringify!($setting($($value),*)));
            assert!(error.is_config(), "{}: {error}", stringify!($setting($($value),*)));
            assert!(error.to_string().len() > 20, "the text explains: {error}");
        )*};
    }
    refused![
        concurrency(0),
        window(0),
        window(63),
        max_attempts(0),
        max_attempts(u32::MAX),
        concurrency(100_001),
        window(usize::MAX),
        lease(Duration::ZERO),
        lease(Duration::MAX),
        poll_interval(Duration::ZERO),
        poll_interval(Duration::MAX),
        handler_timeout(Duration::ZERO),
        handler_timeout(Duration::MAX),
        store_timeout(Duration::ZERO),
        store_timeout(Duration::MAX),
        grace(Duration::MAX),
        backoff(Duration::ZERO, Duration::ZERO),
        backoff(secs(2), secs(1)),
        backoff(secs(1), Duration::MAX),
        jitter(-0.1),
        jitter(1.1),
        jitter(f64::NAN),
        jitter(f64::INFINITY),
    ];
    for builder in [
        Outbox::builder().max_payload(0),
        Outbox::builder().publish_timeout(Duration::ZERO),
        Outbox::builder().table(""),
    ] {
        let error = builder.build().expect_err("a setting that can't work");
        assert!(error.is_config(), "{error}");
    }
}

async fn the_edges_of_the_range_are_accepted(db: Db) {
    let lab = Lab::content();
    let _small = try_relay!(
        db, TASKS, lab;
        concurrency(1), window(1), max_attempts(1_000_000), grace(Duration::ZERO), jitter(0.0),
        backoff(millis(1), millis(1)), poll_interval(millis(1)), handler_timeout(millis(1))
    )
    .expect("small values");
    let _large = try_relay!(db, ALL, lab; concurrency(100_000), lease(secs(3600)), jitter(1.0))
        .expect("large values");
}

async fn a_closed_pool_is_an_error(db: Db) {
    let closed = db.another_pool(1).await;
    each!(closed, pool => pool.close().await);
    let error = within(LONG, async { try_relay!(closed, TASKS, Lab::content()) })
        .await
        .expect_err("the pool is closed");
    assert!(error.is_connection(), "{error}");
    let error = within(LONG, async {
        each!(closed, pool => outbox::migrate(pool).await)
    })
    .await;
    assert!(error.expect_err("the pool is closed").is_connection());
}

#[outbox::message(topic = "lab.bare")]
struct Bare {}

#[outbox::handler]
async fn bare(_message: Bare) {}

static BARE: outbox::Router = outbox::router![bare; requires Bare];

async fn a_router_without_state_needs_none(db: Db) {
    db.publish(&Bare {}).await;
    let relay = each!(db, pool => Relay::builder(pool, &BARE).outbox(&db.outbox()).build().await)
        .expect("no state is asked for");
    let counts = within(LONG, relay.drain()).await.expect("drains");
    assert_eq!(counts.delivered, 1);
}

async fn a_server_that_is_not_there_is_no_secret(db: Db) {
    let pool =
        PgPool::connect_lazy("postgres://nobody:hunter2@127.0.0.1:1/nothing").expect("a URL");
    let error = within(LONG * 2, outbox::migrate(&pool))
        .await
        .expect_err("nobody listens on port 1");
    assert!(error.is_connection(), "{error}");
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "no password in a text"
    );

    // It may still come, so that a relay waits for it; one that refuses the relay is not waited for.
    let build = Relay::builder(&pool, &BARE).build();
    let relay = within(LONG, build).await.expect("a server may still come");
    let error = within(LONG, relay.drain())
        .await
        .expect_err("it is not there");
    assert!(error.is_connection(), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    let Db::Postgres(inner) = &db else {
        unreachable!("this test is for Postgres")
    };
    let stranger = (*inner.pool.connect_options()).clone().username("stranger");
    let pool = PgPoolOptions::new().connect_lazy_with(stranger);
    let build = Relay::builder(&pool, &BARE).build();
    let error = within(LONG, build)
        .await
        .expect_err("there is no such role");
    assert!(error.to_string().contains("stranger"), "{error}");
}

async fn a_file_that_cant_be_opened_is_an_error_at_the_start(_: Db) {
    let pool = SqlitePool::connect_lazy("sqlite:///no/such/folder/outbox.db").expect("a URL");
    let build = Relay::builder(&pool, &BARE).build();
    let error = within(LONG * 2, build)
        .await
        .expect_err("there is no such folder");
    assert!(error.is_connection(), "{error}");
    let error = within(LONG * 2, outbox::migrate(&pool))
        .await
        .expect_err("there is no such folder");
    assert!(error.is_connection(), "{error}");
}
