//! Failed attempts: how many, how far apart, and what is kept of them.

use std::{collections::HashSet, time::Duration};

use outbox::{Decision, HandlerError, ResultExt as _, State};
use outbox_tests::{
    Call, Db, Lab, Row,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::{LONG, millis, secs, within},
};

use crate::support::{delivered, in_state, insert, row, until};

on_every_database![
    a_message_that_always_fails_is_tried_so_often_and_then_dead,
    a_retry_is_not_waited_for_by_polling,
    attempts_are_spaced_by_the_backoff,
    jitter_spreads_the_delays_within_their_bounds,
    a_huge_attempt_waits_for_the_cap,
    retry_after_replaces_the_backoff_but_not_the_limit,
    cancel_is_dead_at_once_with_its_reason,
    decisions_travel_with_the_error,
    what_the_handler_says_wins_over_the_builder,
    the_last_ten_failures_are_kept,
    any_text_of_an_error_can_be_stored,
    a_bad_message_does_not_slow_the_good_ones,
];

fn failing() -> Lab {
    Lab::new(|_| async { Err(HandlerError::retry("no luck")) })
}

/// When the row is due, counted from the end of its last attempt.
fn delay(row: &Row) -> i64 {
    row.available_at
        - row.errors.last().expect("a failure")["at"]
            .as_i64()
            .expect("a time")
}

async fn a_message_that_always_fails_is_tried_so_often_and_then_dead(db: Db) {
    let lab = failing();
    let id = db.publish(&Task::named("hopeless")).await.id;
    let running = relay!(db, TASKS, lab; max_attempts(5)).spawn();
    let dead = in_state(&db, id, "dead").await;
    let counts = running.shutdown().await.expect("stops");
    assert_eq!(lab.starts(id), 5, "exactly five starts");
    assert_eq!(
        (counts.retried, counts.dead, counts.delivered),
        (4, 1, 0),
        "{counts:?}"
    );
    assert_eq!((dead.attempts, dead.unsettled), (5, 0));
    assert_eq!(dead.texts(), ["no luck"; 5]);
    let attempts: Vec<_> = dead
        .errors
        .iter()
        .map(|error| error["attempt"].as_i64())
        .collect();
    assert_eq!(attempts, [Some(1), Some(2), Some(3), Some(4), Some(5)]);
    let died = dead.settled_at.expect("the time of its death");
    assert!(
        died >= dead.created_at
            && dead
                .errors
                .iter()
                .all(|error| error["at"].as_i64() <= Some(died + 5)),
        "{dead:?}"
    );
}

async fn a_retry_is_not_waited_for_by_polling(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        match call.delivery.attempt() {
            5 => Ok(()),
            _ => Err(HandlerError::retry("not yet")),
        }
    });
    let ids = db.publish_all(&["one", "another"].map(Task::named)).await;
    let relay = relay!(db, TASKS, lab; poll_interval(secs(600)), backoff(millis(20), millis(300)));
    let running = relay.spawn();
    for published in ids {
        delivered(&db, published).await;
    }
    running.shutdown().await.expect("stops");
}

async fn attempts_are_spaced_by_the_backoff(db: Db) {
    let lab = failing();
    let id = db.publish(&Task::named("hopeless")).await.id;
    let settings = (millis(100), millis(400));
    let running =
        relay!(db, TASKS, lab; max_attempts(5), backoff(settings.0, settings.1), jitter(0.0))
            .spawn();
    in_state(&db, id, "dead").await;
    running.shutdown().await.expect("stops");
    let times: Vec<_> = lab.calls().iter().map(|call| call.at).collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Due times are rounded to the millisecond on one of the databases.
    let wanted = [100, 200, 400, 400].map(|gap| millis(gap) - millis(2));
    assert!(
        gaps.len() == 4 && gaps.iter().zip(wanted).all(|(gap, least)| *gap >= least),
        "{gaps:?}"
    );
    assert!(
        gaps[3] < secs(5),
        "the fourth saturates at the cap: {gaps:?}"
    );
}

async fn jitter_spreads_the_delays_within_their_bounds(db: Db) {
    for (jitter, bounds) in [
        (0.0, 10_000..=10_000),
        (0.5, 5_000..=10_000),
        (1.0, 0..=10_000),
    ] {
        db.publish_all(&Task::numbered(40)).await;
        let relay = relay!(db, TASKS, failing(); backoff(secs(10), secs(60)), jitter(jitter));
        within(LONG, relay.drain()).await.expect("drains");
        let delays: Vec<_> = db
            .rows("attempts = 1 AND state = 'pending'")
            .await
            .iter()
            .map(delay)
            .collect();
        db.execute("DELETE FROM outbox").await;

        assert!(
            delays.len() >= 39,
            "one of them may have been due again: {}",
            delays.len()
        );
        // The time of the failure and the due time are read from the clock one after the other.
        let bounds = bounds.start() - 50..=bounds.end() + 1_000;
        assert!(
            delays.iter().all(|delay| bounds.contains(delay)),
            "jitter {jitter}: {delays:?}"
        );
        let (least, most) = (
            delays.iter().min().expect("some"),
            delays.iter().max().expect("some"),
        );
        if jitter > 0.0 {
            assert!(
                most - least > 2_000,
                "forty delays are spread out: {delays:?}"
            );
            assert!(
                delays.iter().collect::<HashSet<_>>().len() > 10,
                "and differ: {delays:?}"
            );
        }
    }
}

async fn a_huge_attempt_waits_for_the_cap(db: Db) {
    let id = insert(&db, "old", &[("attempts", "999")]).await;
    let relay =
        relay!(db, TASKS, failing(); max_attempts(2_000), backoff(secs(1), secs(300)), jitter(0.0));
    within(LONG, relay.drain()).await.expect("drains");
    let waiting = row(&db, id).await;
    assert_eq!(
        (waiting.state.as_str(), waiting.attempts),
        ("pending", 1_000)
    );
    let delay = delay(&waiting);
    assert!(
        (299_900..=301_000).contains(&delay),
        "the delay is {delay} ms, the cap 300 s"
    );
}

async fn retry_after_replaces_the_backoff_but_not_the_limit(db: Db) {
    let lab =
        Lab::new(|_| async { Err(HandlerError::retry_after(millis(300), "come back later")) });
    let id = db.publish(&Task::named("patient")).await.id;
    let running = relay!(db, TASKS, lab; max_attempts(3), backoff(secs(100), secs(100))).spawn();
    let dead = in_state(&db, id, "dead").await;
    running.shutdown().await.expect("stops");
    let calls = lab.calls();
    assert_eq!(
        (calls.len(), dead.attempts),
        (3, 3),
        "bounded by the attempts"
    );
    for pair in calls.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(
            (millis(298)..secs(20)).contains(&gap),
            "{gap:?}, asked for 300 ms"
        );
    }
}

async fn cancel_is_dead_at_once_with_its_reason(db: Db) {
    let lab = Lab::new(|_| async { Err(HandlerError::cancel("the account is closed")) });
    let id = db.publish(&Task::named("pointless")).await.id;
    let counts = within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    let dead = row(&db, id).await;
    assert_eq!((counts.dead, counts.retried, lab.starts(id)), (1, 0, 1));
    assert_eq!(
        (dead.state.as_str(), dead.attempts, dead.texts()),
        ("dead", 1, vec!["the account is closed"])
    );
}

async fn decisions_travel_with_the_error(db: Db) {
    fn refused() -> Result<(), std::io::Error> {
        Err(std::io::Error::other("refused"))
    }
    let lab = Lab::new(|call: Call| async move {
        match call.name.as_str() {
            "cancelled" => refused().or_cancel()?,
            "later" => refused().or_retry_after(secs(1_000))?,
            _ => refused()?,
        }
        Ok(())
    });
    let [cancelled, later, plain] = ["cancelled", "later", "plain"].map(Task::named);
    let ids = db.publish_all(&[cancelled, later, plain]).await;
    let relay = relay!(db, TASKS, lab; backoff(secs(100), secs(100)), jitter(0.0));
    within(LONG, relay.drain()).await.expect("drains");
    assert_eq!(row(&db, ids[0]).await.state, "dead");
    let (later, plain) = (row(&db, ids[1]).await, row(&db, ids[2]).await);
    assert_eq!(
        (later.state.as_str(), plain.state.as_str()),
        ("pending", "pending")
    );
    assert!((999_000..1_002_000).contains(&delay(&later)), "{later:?}");
    assert!((99_000..102_000).contains(&delay(&plain)), "{plain:?}");
    assert_eq!(plain.last_text(), "refused");
}

#[outbox::message(topic = "lab.strict")]
struct Strict {
    name: String,
}

#[derive(Debug)]
struct OwnError(&'static str);

impl std::fmt::Display for OwnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for OwnError {}

fn judge(error: &OwnError) -> Decision {
    if error.0 == "fatal" {
        Decision::Cancel
    } else {
        Decision::Retry
    }
}

#[outbox::handler(topic = "lab.strict", timeout = "300ms", max_attempts = 2, backoff = "10ms..20ms", on_error = judge)]
async fn strict(
    message: Strict,
    State(lab): State<Lab>,
    delivery: outbox::Delivery,
) -> Result<(), OwnError> {
    let task = Task {
        name: message.name.clone(),
        number: 0,
    };
    // The record of the suite's own handler; its outcome is not what counts here.
    let _ = outbox_tests::lab::run_task(task, State(lab), delivery).await;
    match message.name.as_str() {
        "fatal" => Err(OwnError("fatal")),
        "slow" => std::future::pending().await,
        _ => Err(OwnError("passing")),
    }
}

static STRICT: outbox::Router<Lab> = outbox::router![strict];

async fn what_the_handler_says_wins_over_the_builder(db: Db) {
    let lab = Lab::content();
    let names = ["fatal", "slow", "passing"];
    let messages: Vec<_> = names
        .iter()
        .map(|name| Strict {
            name: (*name).to_owned(),
        })
        .collect();
    let ids = db.publish_all(&messages).await;
    let running = relay!(db, STRICT, lab; max_attempts(50), backoff(secs(1_000), secs(1_000)), handler_timeout(secs(1_000))).spawn();
    let mut dead = Vec::new();
    for id in &ids {
        dead.push(in_state(&db, *id, "dead").await);
    }
    running.shutdown().await.expect("stops");
    let attempts: Vec<_> = dead.iter().map(|row| row.attempts).collect();
    assert_eq!(
        attempts,
        [1, 2, 2],
        "`on_error` cancelled the first, the others had `max_attempts`"
    );
    assert!(
        dead[1].last_text().contains("300ms"),
        "the timeout is the handler's: {:?}",
        dead[1].texts()
    );
    assert_eq!(dead[2].texts(), ["passing", "passing"]);
}

async fn the_last_ten_failures_are_kept(db: Db) {
    let lab = Lab::new(|call| async move {
        Err(HandlerError::retry(format!(
            "attempt {}",
            call.delivery.attempt()
        )))
    });
    let id = db.publish(&Task::named("stubborn")).await.id;
    let running = relay!(db, TASKS, lab; max_attempts(13), backoff(millis(1), millis(1))).spawn();
    let dead = in_state(&db, id, "dead").await;
    running.shutdown().await.expect("stops");
    let expected: Vec<_> = (4..=13).map(|n| format!("attempt {n}")).collect();
    assert_eq!(dead.texts(), expected);
}

async fn any_text_of_an_error_can_be_stored(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        Err(match call.name.as_str() {
            "nul" => HandlerError::cancel("before\0after"),
            "long" => HandlerError::cancel("🦀".repeat(500_000)),
            "odd" => HandlerError::cancel("x".to_owned() + &"🦀".repeat(500_000)),
            _ => HandlerError::cancel("quotes ' \" \\ and \\u0000"),
        })
    });
    let tasks = ["nul", "long", "odd", "quotes"].map(Task::named);
    let ids = db.publish_all(&tasks).await;
    let counts = within(LONG, relay!(db, TASKS, lab).drain())
        .await
        .expect("drains");
    assert_eq!(counts.dead, 4, "{counts:?}");
    let nul = row(&db, ids[0]).await;
    assert!(
        nul.last_text().contains("before") && nul.last_text().contains("after"),
        "{:?}",
        nul.texts()
    );
    for (id, start) in [(ids[1], "🦀🦀"), (ids[2], "x🦀🦀")] {
        let kept = row(&db, id).await;
        let text = kept.last_text();
        assert!(
            text.starts_with(start) && !text.contains('\u{fffd}'),
            "cut on a character boundary"
        );
        assert!(
            text.len() < 100_000,
            "{} bytes of an error are too many to keep",
            text.len()
        );
    }
    assert_eq!(
        row(&db, ids[3]).await.texts(),
        ["quotes ' \" \\ and \\u0000"]
    );
}

async fn a_bad_message_does_not_slow_the_good_ones(db: Db) {
    let lab = Lab::new(|call: Call| async move {
        if call.name == "bad" {
            Err(HandlerError::retry("always"))
        } else {
            Ok(())
        }
    });
    let bad = db.publish(&Task::named("bad")).await.id;
    let good = db.publish_all(&Task::numbered(1_000)).await;
    let running = relay!(db, TASKS, lab; backoff(Duration::from_millis(200), secs(1)), jitter(0.0), max_attempts(1_000)).spawn();
    for id in [good[0], good[999]] {
        delivered(&db, id).await;
    }
    outbox_tests::eventually(LONG, || db.count("1 = 1"), |left| *left == 1).await;
    let before = lab.starts(bad);
    until(&db, bad, |row| {
        usize::try_from(row.attempts).is_ok_and(|attempts| attempts > before)
    })
    .await;
    running.shutdown().await.expect("stops");
    assert!(
        before < 50,
        "{before} attempts at the bad one while the good ones went through: no busy loop"
    );
    assert_eq!(
        lab.calls().len() - lab.starts(bad),
        1_000,
        "the good ones ran once"
    );
}
