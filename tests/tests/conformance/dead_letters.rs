//! What an operator sees and does: statistics, dead letters, redrive.

use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use outbox::{HandlerError, RouteStats};
use outbox_tests::{
    Call, Db, Lab, each, eventually,
    lab::{ERRAND, ERRANDS, Errand, TASK, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, secs, within},
};
use uuid::Uuid;

use crate::support::{delivered, in_state, insert, insert_lapsed, row};

on_every_database![
    stats_count_each_route_and_state,
    a_route_that_no_live_relay_serves_is_unrouted,
    the_oldest_due_message_has_an_age,
    dead_letters_are_listed_latest_first,
    somebody_is_told_of_each_dead_letter,
    a_redriven_message_is_delivered_and_keeps_its_history,
    only_a_dead_row_can_be_redriven,
];

async fn stats(db: &Db) -> Vec<RouteStats> {
    each!(db, pool => db.outbox().stats(pool).await)
        .expect("counts")
        .routes
}

async fn stats_count_each_route_and_state(db: Db) {
    assert_eq!(stats(&db).await.len(), 0, "an empty outbox has no routes");
    for (state, n) in [
        ("pending", 4),
        ("processing", 3),
        ("delivered", 2),
        ("dead", 1),
    ] {
        for _ in 0..n {
            insert(&db, "task", &[("state", &format!("'{state}'"))]).await;
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
    let counts =
        |route: &RouteStats| [route.pending, route.processing, route.delivered, route.dead];
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
        (routes[0].pending, routes[0].oldest_due),
        (1, None),
        "it is not due yet"
    );
    insert(&db, "due", &[("available_at", &db.ago(secs(90)))]).await;
    insert(&db, "overdue", &[("available_at", &db.ago(secs(300)))]).await;
    let age = stats(&db).await[0].oldest_due.expect("some are due");
    assert!((secs(299)..secs(360)).contains(&age), "{age:?}");
}

async fn dead_letters_are_listed_latest_first(db: Db) {
    let lab =
        Lab::new(
            |call| async move { Err(HandlerError::cancel(format!("reason of {}", call.name))) },
        );
    let relay = relay!(db, TASKS, lab);
    let mut ids = Vec::new();
    for name in ["first", "second", "third"] {
        ids.push(db.publish(&Task::named(name)).await.id);
        within(LONG, relay.drain()).await.expect("drains");
    }
    db.publish(&Errand {
        name: "alive".to_owned(),
        number: 0,
    })
    .await;
    ids.reverse();

    each!(db, pool => {
        let outbox = db.outbox();
        let letters = outbox.dead_letters(pool).list().await.expect("lists");
        assert_eq!(letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), ids);
        let latest = &letters[0];
        assert_eq!((latest.topic.as_str(), latest.version, latest.key.as_deref()), (TASK, 1, Some("third")));
        assert_eq!((latest.attempts, latest.redrives, latest.errors.len()), (1, 0, 1));
        assert_eq!((latest.errors[0].attempt, latest.errors[0].text.as_str()), (1, "reason of third"));
        let now = SystemTime::now();
        for time in [latest.created_at, latest.died_at, latest.errors[0].at] {
            let apart = now.duration_since(time).unwrap_or_else(|error| error.duration());
            assert!(apart < LONG, "{latest:?}");
        }
        assert!(latest.died_at >= latest.created_at);

        let two = outbox.dead_letters(pool).limit(2).list().await.expect("lists");
        assert_eq!(two.iter().map(|letter| letter.id).collect::<Vec<_>>(), ids[..2]);
    });
}

async fn somebody_is_told_of_each_dead_letter(db: Db) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let lab = Lab::new(|call: Call| async move {
        match call.number {
            0 => Ok(()),
            1 => Err(HandlerError::cancel("no use")),
            _ => Err(HandlerError::retry("broken")),
        }
    });
    let tell = {
        let told = Arc::clone(&told);
        move |died: &outbox::Died| {
            told.lock().expect("nobody panicked").push(died.clone());
            assert_ne!(died.reason, "no use", "what panics here is contained");
        }
    };
    let relay = relay!(db, TASKS, lab; max_attempts(2), on_dead_letter(tell)).spawn();
    let mut ids = Vec::new();
    for number in 0..3 {
        let task = Task {
            name: "task".to_owned(),
            number,
        };
        ids.push(db.publish(&task).await.id);
    }
    in_state(&db, ids[1], "dead").await;
    in_state(&db, ids[2], "dead").await;
    // One whose process died in its last attempt is dead at the claim.
    ids.push(insert_lapsed(&db, "lapsed").await);
    let all = || async { told.lock().expect("nobody panicked").clone() };
    let mut all = eventually(LONG, all, |all| all.len() == 3).await;
    all.sort_by_key(|died| died.id);
    let seen: Vec<_> = all
        .iter()
        .map(|died| (died.id, died.topic, died.reason.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            (ids[1], TASK, "no use"),
            (ids[2], TASK, "broken"),
            (ids[3], TASK, "its last attempts ended without a word")
        ],
        "each once, and none that was delivered"
    );
    relay.shutdown().await.expect("stops");
}

async fn a_redriven_message_is_delivered_and_keeps_its_history(db: Db) {
    let id = insert(&db, "", &[]).await;
    let lab = Lab::content();
    let running = relay!(db, TASKS, lab; max_attempts(1)).spawn();
    let dead = in_state(&db, id, "dead").await;
    assert_eq!(lab.calls().len(), 0, "an empty name is against the rules");

    let redrive = || async {
        each!(db, pool => db.outbox().dead_letters(pool).redrive(id).await).expect("redrives")
    };
    // It dies again: its payload is as it was.
    assert!(redrive().await, "there is a dead row of this id");
    let again =
        crate::support::until(&db, id, |row| row.state == "dead" && row.errors.len() == 2).await;
    assert_eq!(
        (again.redrives, again.attempts),
        (1, 1),
        "it starts over with its attempts"
    );
    assert_eq!(again.errors[0], dead.errors[0], "the old failure is kept");

    let payload = "{\"name\":\"corrected\",\"number\":0}";
    db.execute(&format!(
        "UPDATE outbox SET payload = '{payload}' WHERE id = {}",
        db.uuid(id)
    ))
    .await;
    assert!(redrive().await);
    delivered(&db, id).await;
    running.shutdown().await.expect("stops");
    assert_eq!(lab.calls().len(), 1);
    assert_eq!(lab.calls()[0].delivery.attempt(), 1);
    assert!(!redrive().await, "a delivered message is gone");
}

async fn only_a_dead_row_can_be_redriven(db: Db) {
    let redrive = |id: Uuid| {
        let db = db.clone();
        async move {
            each!(db, pool => db.outbox().dead_letters(pool).redrive(id).await).expect("redrives")
        }
    };
    let token = db.uuid(Uuid::new_v4());
    for state in ["pending", "processing", "delivered"] {
        let lease = db.ahead(secs(3600));
        let columns = [
            ("state", &*format!("'{state}'")),
            ("attempts", "3"),
            ("token", &*token),
            ("leased_until", &*lease),
        ];
        let id = insert(&db, "task", &columns).await;
        let before = row(&db, id).await;
        assert!(!redrive(id).await, "{state}");
        assert_eq!(row(&db, id).await, before, "{state}: untouched");
    }
    assert!(!redrive(Uuid::now_v7()).await, "there is no such row");
}
