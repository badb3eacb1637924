//! A message of another team's that a program only handles.

use outbox::{Outbox, Publish};
use sqlx::SqlitePool;

// The message stands in the function: its schema's test would be that of the owner's file.
#[allow(unnameable_test_items)]
#[tokio::test]
async fn it_can_not_be_published_by_any_way() {
    #[outbox::message(topic = "orders.placed", schema = "schemas/orders.placed/v1.json", role = reader)]
    #[derive(Debug)]
    struct OrderPlaced {
        order: i64,
    }

    let pool = SqlitePool::connect("sqlite::memory:").await.expect("opens");
    let mut tx = pool.begin().await.expect("begins");
    let order = OrderPlaced { order: 7 };
    // There is no table: had any SQL been sent, the error would be another one.
    let by_trait = Publish::publish(&order, &mut tx).await;
    let by_handle = Outbox::default().publish(&order, &mut tx).await;
    for refused in [by_trait, by_handle] {
        let error = refused.expect_err("refused");
        assert!(error.is_config(), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("`orders.placed`") && text.contains("role = reader"),
            "{text}"
        );
    }
    assert_eq!(order.order, 7);
}
