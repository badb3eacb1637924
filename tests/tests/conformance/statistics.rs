//! What is in the table, and who serves it.

use outbox::RouteStats;
use outbox_tests::{
    Db, Lab, each, eventually,
    lab::{ERRAND, ERRANDS, Errand, TASK, TASKS},
    on_every_database, relay, scaled,
    wait::{LONG, secs},
};

use crate::support::{insert, insert_lapsed};

on_every_database![
    stats_count_each_route_and_state,
    what_is_leased_or_was_is_counted,
    a_route_that_no_live_relay_serves_is_unrouted,
    the_oldest_due_message_has_an_age,
    relays_that_live_are_named,
    counting_stops_at_a_limit,
    all_routes_are_found,
];

async fn stats(db: &Db) -> Vec<RouteStats> {
    each!(db, pool => db.outbox().stats(pool).await)
        .expect("counts")
        .routes
}

async fn stats_count_each_route_and_state(db: Db) {
    assert_eq!(stats(&db).await.len(), 0, "an empty outbox has no routes");
    let lease = db.ahead(secs(60));
    for (state, n) in [
        ("pending", 4),
        ("processing", 3),
        ("delivered", 2),
        ("dead", 1),
    ] {
        for _ in 0..n {
            let unsettled = if state == "processing" { "1" } else { "0" };
            let columns = [
                ("state", &*format!("'{state}'")),
                ("unsettled", unsettled),
                ("leased_until", &*lease),
            ];
            insert(&db, "task", &columns).await;
        }
    }
    insert(&db, "task", &[("version", "2")]).await;
    db.publish(&Errand {
        name: "errand".to_owned(),
        number: 0,
    })
    .await;

    let routes = stats(&db).await;
    let names: Vec<_> = routes
        .iter()
        .map(|route| (route.topic.as_str(), route.version))
        .collect();
    assert_eq!(
        names,
        [(ERRAND, 1), (TASK, 1), (TASK, 2)],
        "sorted by topic and version"
    );
    let counts = |route: &RouteStats| {
        [
            route.pending(),
            route.processing,
            route.delivered,
            route.dead,
        ]
    };
    assert_eq!(
        routes.iter().map(counts).collect::<Vec<_>>(),
        [[1, 0, 0, 0], [4, 3, 2, 1], [1, 0, 0, 0]]
    );
}

async fn a_route_that_no_live_relay_serves_is_unrouted(db: Db) {
    db.execute("INSERT INTO outbox (topic, payload) VALUES ('nobodys', '{}')")
        .await;
    // Due much later, so that it is still pending while a relay serves it.
    insert(&db, "task", &[("available_at", &db.ahead(secs(3600)))]).await;
    let unrouted = async || {
        let routes = stats(&db).await;
        routes
            .into_iter()
            .filter(|route| route.unrouted)
            .map(|route| route.topic)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        unrouted().await,
        [TASK, "nobodys"],
        "nobody serves anything"
    );

    let running = relay!(db, TASKS, Lab::content()).spawn();
    let other = relay!(db, ERRANDS, Lab::content()).spawn();
    eventually(LONG, &unrouted, |topics| topics[..] == ["nobodys"]).await;
    other.shutdown().await.expect("stops");
    assert_eq!(
        unrouted().await,
        ["nobodys"],
        "it was not the one that mattered"
    );
    running.shutdown().await.expect("stops");
    eventually(LONG, &unrouted, |topics| topics[..] == [TASK, "nobodys"]).await;
}

async fn the_oldest_due_message_has_an_age(db: Db) {
    insert(&db, "later", &[("available_at", &db.ahead(secs(3600)))]).await;
    let routes = stats(&db).await;
    assert_eq!(
        (routes[0].due, routes[0].scheduled, routes[0].oldest_due),
        (0, 1, None),
        "it is not due yet"
    );
    insert(&db, "due", &[("available_at", &db.ago(secs(90)))]).await;
    insert(&db, "overdue", &[("available_at", &db.ago(secs(300)))]).await;
    let age = stats(&db).await[0].oldest_due.expect("some are due");
    assert!((secs(299)..secs(360)).contains(&age), "{age:?}");
}

async fn what_is_leased_or_was_is_counted(db: Db) {
    // Left behind by a relay that died; one that was given back and waits to be taken over.
    insert_lapsed(&db, "lapsed").await;
    let (ago, lapsed) = (db.ago(secs(100)), db.ago(secs(1)));
    let given_back = [
        ("unsettled", "1"),
        ("leased_until", &*lapsed),
        ("available_at", &*ago),
    ];
    insert(&db, "given back", &given_back).await;
    let routes = stats(&db).await;
    assert_eq!(routes.len(), 1);
    let route = &routes[0];
    assert_eq!((route.due, route.scheduled, route.processing), (1, 0, 1));
    assert!(route.unrouted, "both wait for a relay");
    let age = route.oldest_due.expect("one is due");
    assert!((secs(99)..secs(160)).contains(&age), "{age:?}");
}

async fn relays_that_live_are_named(db: Db) {
    let none = each!(db, pool => db.outbox().stats(pool).await).expect("counts");
    assert_eq!(none.relays, []);
    let relay = relay!(db, TASKS, Lab::content()).spawn();
    let live = || async {
        let stats = each!(db, pool => db.outbox().stats(pool).await).expect("counts");
        stats.relays
    };
    let live = eventually(LONG, live, |relays| !relays.is_empty()).await;
    assert_eq!(live.len(), 1);
    assert_eq!(live[0].routes, [(TASK.to_owned(), 1)]);
    assert!(live[0].seen < secs(30), "{live:?}");
    relay.shutdown().await.expect("stops");
}

async fn counting_stops_at_a_limit(db: Db) {
    let n = scaled(10_100, 1_000_000);
    db.execute(&format!(
        "INSERT INTO outbox (topic, payload) SELECT '{TASK}', '{{}}' FROM {}",
        db.numbers(n)
    ))
    .await;
    each!(db, pool => {
        let outbox = db.outbox();
        let few = outbox.stats(pool).await.expect("counts");
        assert_eq!((few.routes[0].due, few.limit), (10_000, Some(10_000)));
        let all = outbox.stats(pool).exact().await.expect("counts");
        assert_eq!((all.routes[0].due, all.limit), (n as u64, None));
    });
}

async fn all_routes_are_found(db: Db) {
    // Of each kind there are routes that the others have not.
    let mut expected = Vec::new();
    let lease = db.ahead(secs(60));
    for (n, state) in ["pending", "processing", "delivered", "dead"]
        .iter()
        .enumerate()
    {
        for topic in 0..20 {
            for version in 1..=2 {
                let topic = format!("t{topic:02}.{n}");
                let (lease, unsettled) = match *state {
                    "processing" => (&*lease, 1),
                    _ => ("NULL", 0),
                };
                db.execute(&format!(
                    "INSERT INTO outbox (topic, version, payload, state, unsettled, leased_until) \
                     VALUES ('{topic}', {version}, '{{}}', '{state}', {unsettled}, {lease})"
                ))
                .await;
                expected.push((topic, version));
            }
        }
    }
    expected.sort();
    let found = stats(&db).await;
    let found: Vec<_> = found
        .into_iter()
        .map(|route| (route.topic, route.version))
        .collect();
    assert_eq!(found, expected);
}
