//! The message that every peer carries.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payload {
    pub order_id: i64,
    pub item: String,
    pub quantity: i32,
    pub note: String,
}

impl Payload {
    pub fn new(order_id: i64) -> Self {
        Self {
            order_id,
            item: "teapot".into(),
            quantity: 3,
            note: "leave it with the neighbours at no. 12".into(),
        }
    }
}
