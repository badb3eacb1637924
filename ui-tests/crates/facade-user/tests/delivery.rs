//! What came through the facade is delivered.

use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering};

use outbox_facade::messaging::outbox::{self, Outbox, Relay};
use outbox_facade_user::{App, ByMacro, Direct, Event, ROUTER};

#[tokio::test]
async fn messages_of_a_facade_are_published_and_handled() {
    let options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(2);
    let folder = std::env::temp_dir().join(format!("outbox-facade-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let url = format!("sqlite://{}/facade.db?mode=rwc", folder.display());
    let pool = options.connect(&url).await.expect("a database");
    outbox::migrate(&pool).await.expect("tables");

    let mut tx = pool.begin().await.expect("a transaction");
    let text = "logged".to_owned();
    let events = [
        Event::Direct(Direct { id: 7 }),
        Event::ByMacro(ByMacro { text }),
    ];
    let published = Outbox::default().publish_all(events, &mut tx).await;
    assert_eq!(published.expect("publishes").len(), 2);
    tx.commit().await.expect("commits");

    let handled = Arc::new(AtomicU64::new(0));
    let app = App {
        handled: Arc::clone(&handled),
    };
    let relay = Relay::builder(&pool, &ROUTER).state(app).build().await;
    let counts = relay.expect("a relay").drain().await.expect("drains");
    assert_eq!((counts.delivered, handled.load(Ordering::SeqCst)), (2, 7));
    std::fs::remove_dir_all(&folder).expect("removes its folder");
}
