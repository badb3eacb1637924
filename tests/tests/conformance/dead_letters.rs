//! Dead letters one by one: listed, told of, redriven.

use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use outbox::HandlerError;
use outbox_tests::{
    Call, Db, Lab, each, eventually,
    lab::{Errand, TASK, TASKS, Task},
    on_every_database, relay,
    wait::{LONG, secs, within},
};
use uuid::Uuid;

use crate::support::{delivered, in_state, insert, insert_lapsed, row};

on_every_database![
    dead_letters_are_listed_latest_first,
    somebody_is_told_of_each_dead_letter,
    a_redriven_message_is_delivered_and_keeps_its_history,
    only_a_dead_row_can_be_redriven,
];

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
