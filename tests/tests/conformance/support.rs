//! Waits that many tests share.

use outbox_tests::{
    Db, Row, eventually,
    wait::{LONG, secs},
};
use uuid::Uuid;

/// Waits until the row is gone, as a delivered one is.
pub(crate) async fn delivered(db: &Db, id: Uuid) {
    eventually(LONG, || db.row(id), Option::is_none).await;
}

/// Waits until the outbox is empty.
pub(crate) async fn all_delivered(db: &Db) {
    eventually(LONG, || db.count("1 = 1"), |rows| *rows == 0).await;
}

/// Waits until the row is in this state.
pub(crate) async fn in_state(db: &Db, id: Uuid, state: &str) -> Row {
    until(db, id, |row| row.state == state).await
}

/// Waits until the row is as asked for.
pub(crate) async fn until(db: &Db, id: Uuid, condition: impl Fn(&Row) -> bool) -> Row {
    let row = eventually(
        LONG,
        || db.row(id),
        |row| row.as_ref().is_some_and(&condition),
    )
    .await;
    row.expect("the row is there, or the wait had not ended")
}

/// The row, which must be there.
pub(crate) async fn row(db: &Db, id: Uuid) -> Row {
    db.row(id).await.expect("the row is there")
}

/// Inserts a task whose last two claims ended without a word.
pub(crate) async fn insert_lapsed(db: &Db, name: &str) -> Uuid {
    let (token, lapsed) = (db.uuid(Uuid::new_v4()), db.ago(secs(1)));
    let columns = [
        ("state", "'processing'"),
        ("attempts", "2"),
        ("unsettled", "2"),
        ("token", token.as_str()),
        ("leased_until", lapsed.as_str()),
    ];
    insert(db, name, &columns).await
}

/// Inserts a task by plain SQL, with these columns beside `payload`; its id.
pub(crate) async fn insert(db: &Db, name: &str, columns: &[(&str, &str)]) -> Uuid {
    let id = Uuid::now_v7();
    let (mut names, mut values) = (String::new(), String::new());
    let topic = [("topic", "'lab.task'")];
    let default = columns.iter().all(|(column, _)| *column != "topic");
    let topic = topic.iter().filter(|_| default);
    for (column, value) in topic.chain(columns) {
        names.push_str(&format!(", \"{column}\""));
        values.push_str(&format!(", {value}"));
    }
    db.execute(&format!(
        "INSERT INTO outbox (id, payload{names}) \
         VALUES ({}, '{{\"name\":\"{name}\",\"number\":0}}'{values})",
        db.uuid(id)
    ))
    .await;
    id
}
