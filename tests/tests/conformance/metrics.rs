//! What a metrics system is told.

use outbox::{HandlerError, Health};
use outbox_tests::{
    Call, Db, Lab, Proxy, each, eventually,
    lab::{ALL, Errand, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, secs, within},
};

use crate::{
    recorder::recorded,
    support::{delivered, in_state},
};

on_every_database! {
    all: [deliveries_are_counted, the_backlog_is_told_when_it_is_counted],
    servers: [lost_leases_and_failed_claims_are_counted],
    direct: [a_replaced_listener_is_counted]
}

async fn deliveries_are_counted(db: Db) {
    let told = recorded(move || async move {
        let db = db.reopened().await;
        let lab = Lab::new(|call: Call| async move {
            match (call.name.as_str(), call.delivery.attempt()) {
                ("panics", 1) => panic!("on purpose"),
                ("again", 1) => Err(HandlerError::retry("again")),
                ("never", _) => Err(HandlerError::cancel("no")),
                _ => Ok(()),
            }
        });
        let names = ["good", "better", "panics", "again", "never"].map(Task::named);
        let ids = db.publish_all(&names).await;
        let errand = Errand {
            name: "errand".to_owned(),
            number: 0,
        };
        let errand = db.publish(&errand).await.id;
        let relay = relay!(db, ALL, lab).spawn();
        in_state(&db, ids[4], "dead").await;
        for id in [ids[0], ids[1], ids[2], ids[3], errand] {
            delivered(&db, id).await;
        }
        relay.shutdown().await.expect("stops");
    })
    .await;
    let expected = [
        ("outbox_published_total topic=lab.task", 5.0),
        ("outbox_delivered_total topic=lab.task", 4.0),
        ("outbox_retried_total topic=lab.task", 2.0),
        ("outbox_dead_total topic=lab.task", 1.0),
        ("outbox_panics_total topic=lab.task", 1.0),
        ("outbox_handler_seconds topic=lab.task", 7.0),
        ("outbox_due_to_start_seconds topic=lab.task", 7.0),
        ("outbox_in_flight topic=lab.task", 0.0),
        ("outbox_published_total topic=lab.errand", 1.0),
        ("outbox_delivered_total topic=lab.errand", 1.0),
    ];
    for (name, value) in expected {
        assert_eq!(told.get(name), Some(&value), "{name}: {told:?}");
    }
    assert!(!told.contains_key("outbox_lease_lost_total topic=lab.task"));
}

async fn the_backlog_is_told_when_it_is_counted(db: Db) {
    let told = recorded(move || async move {
        let db = db.reopened().await;
        db.publish_all(&Task::numbered(3)).await;
        db.execute(&format!(
            "UPDATE outbox SET available_at = {}",
            db.ago(secs(60))
        ))
        .await;
        each!(db, pool => db.outbox().stats(pool).await).expect("counts");
    })
    .await;
    let of = |name: &str| told.get(name).copied();
    let route = "topic=lab.task version=1";
    let pending = of(&format!("outbox_messages {route} state=pending"));
    let dead = of(&format!("outbox_messages {route} state=dead"));
    assert_eq!((pending, dead), (Some(3.0), Some(0.0)), "{told:?}");
    let oldest = of(&format!("outbox_oldest_due_seconds {route}")).expect("an age");
    assert!((59.0..120.0).contains(&oldest), "{oldest} s");
}

async fn lost_leases_and_failed_claims_are_counted(db: Db) {
    let told = recorded(move || async move {
        let db = db.reopened().await;
        let lab = Lab::new(|call: Call| async move {
            if call.delivery.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            Ok(())
        });
        let (far, proxy) = db.behind_a_proxy().await;
        let relay = relay!(far, TASKS, lab; lease(secs(1))).spawn();
        let id = db.publish(&Task::named("lost")).await.id;
        lab.started(1).await;
        proxy.refuse();
        eventually(
            LONG,
            || async { relay.counts().lease_lost },
            |lost| *lost == 1,
        )
        .await;
        proxy.admit();
        delivered(&db, id).await;
        relay.shutdown().await.expect("stops");
    })
    .await;
    assert_eq!(
        told.get("outbox_lease_lost_total topic=lab.task"),
        Some(&1.0),
        "{told:?}"
    );
    for operation in ["claim", "renew"] {
        let errors = told.get(&format!("outbox_store_errors_total operation={operation}"));
        assert!(errors.is_some_and(|errors| *errors >= 1.0), "{told:?}");
    }
}

async fn a_replaced_listener_is_counted(db: Db) {
    let told = recorded(move || async move {
        let db = db.reopened().await;
        let (host, port) = db.server();
        let proxy = Proxy::to(host, port).await;
        // It first hears when it is let through: what is lost before that is not replaced.
        proxy.refuse();
        let relay = relay!(db, TASKS, Lab::content(); poll_interval(secs(600)), listener(db.through(&proxy)))
            .spawn();
        let health = || async { relay.health() };
        let degraded = |health: &Health| matches!(health, Health::Degraded(_));
        eventually(LONG, health, degraded).await;
        proxy.admit();
        eventually(LONG, health, |health| *health == Health::Live).await;
        for name in ["first", "second"] {
            let id = db.publish(&Task::named(name)).await.id;
            delivered(&db, id).await;
            // None comes back before it is known to be gone, and the next one goes when this one is counted.
            proxy.refuse();
            eventually(LONG, health, degraded).await;
            proxy.admit();
            eventually(LONG, health, |health| *health == Health::Live).await;
        }
        let id = db.publish(&Task::named("third")).await.id;
        within(LONG, delivered(&db, id)).await;
        relay.shutdown().await.expect("stops");
    })
    .await;
    assert_eq!(
        told.get("outbox_listener_reconnects_total"),
        Some(&2.0),
        "{told:?}"
    );
}
