//! What a change of a message breaks: each verdict is held against decoding the payloads of the older code
//! with the newer one, and those of the newer code with the older one.

use std::collections::{BTreeMap, BTreeSet};

use outbox::{Message, schema::Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Whom a change breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Breaks {
    backward: bool,
    forward: bool,
}

const NOBODY: Breaks = Breaks {
    backward: false,
    forward: false,
};
const BACKWARD: Breaks = Breaks {
    backward: true,
    ..NOBODY
};
const FORWARD: Breaks = Breaks {
    forward: true,
    ..NOBODY
};
const BOTH: Breaks = Breaks {
    backward: true,
    forward: true,
};

/// A change from one type to another, whom it breaks, and payloads that show it. The verdict's text has
/// to name the field.
macro_rules! changes {
    ($(
        $name:ident at $path:literal breaks $breaks:expr;
        old { $($old:tt)* } writes [$($old_sample:expr),* $(,)?]
        new { $($new:tt)* } writes [$($new_sample:expr),* $(,)?]
    )*) => {$(
        #[test]
        fn $name() {
            // Inside of a function a message brings no test of its own.
            mod old {
                #[allow(unused_imports)]
                use super::*;

                #[outbox::message(topic = "changes.m")]
                #[derive(Debug)]
                $($old)*

                pub(super) fn samples() -> Vec<M> {
                    vec![$($old_sample),*]
                }
            }
            mod new {
                #[allow(unused_imports)]
                use super::*;

                #[outbox::message(topic = "changes.m")]
                #[derive(Debug)]
                $($new)*

                pub(super) fn samples() -> Vec<M> {
                    vec![$($new_sample),*]
                }
            }
            judge($path, &old::samples(), &new::samples(), $breaks);
        }
    )*};
}

/// Whether all that the one side writes is what the other side reads.
fn reads<R: Message>(payloads: &[impl Message]) -> bool {
    payloads.iter().all(|payload| {
        let payload = serde_json::to_string(payload).expect("it can be written");
        let read = serde_json::from_str::<R>(&payload);
        read.is_ok_and(|read| R::validate(&read).is_ok())
    })
}

#[track_caller]
fn judge<O: Message, N: Message>(path: &str, old: &[O], new: &[N], expected: Breaks) {
    assert!(reads::<O>(old) && reads::<N>(new), "each reads its own");
    let shown = Breaks {
        backward: !reads::<N>(old),
        forward: !reads::<O>(new),
    };
    assert_eq!(shown, expected, "by decoding");

    let file = |schema: Option<Schema>| schema.expect("it has a schema").to_json();
    let (older, newer) = (file(Schema::of::<O>()), file(Schema::of::<N>()));
    let read = |file: &str| Schema::from_json(file).expect("the file is read back");
    let changes = read(&older).changes(&read(&newer));
    let told: Vec<_> = changes.iter().map(ToString::to_string).collect();
    let told = told.join("\n");
    let verdict = Breaks {
        backward: changes.iter().any(|change| change.backward.is_some()),
        forward: changes.iter().any(|change| change.forward.is_some()),
    };
    assert_eq!(
        verdict, expected,
        "by the schemas:\n{told}\nolder: {older}\nnewer: {newer}"
    );
    if path == "-" {
        assert_eq!(told, "", "nothing has changed");
        return;
    }
    let at = changes
        .iter()
        .find(|change| change.path == path && (expected == NOBODY || change.is_breaking()));
    assert!(at.is_some(), "no change at `{path}`:\n{told}");
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Line {
    sku: String,
}

fn line() -> Line {
    Line {
        sku: "A1".to_owned(),
    }
}

fn text() -> String {
    "text".to_owned()
}

changes! {
    an_optional_field_is_added at "note" breaks NOBODY;
    old { pub(super) struct M { a: u32 } } writes [M { a: 1 }]
    new { pub(super) struct M { a: u32, note: Option<String> } }
        writes [M { a: 1, note: None }, M { a: 1, note: Some(text()) }]

    a_field_with_a_default_is_added at "b" breaks NOBODY;
    old { pub(super) struct M { a: u32 } } writes [M { a: 1 }]
    new { pub(super) struct M { a: u32, #[serde(default)] b: u32 } } writes [M { a: 1, b: 2 }]

    a_required_field_is_added at "b" breaks BACKWARD;
    old { pub(super) struct M { a: u32 } } writes [M { a: 1 }]
    new { pub(super) struct M { a: u32, b: u32 } } writes [M { a: 1, b: 2 }]

    an_optional_field_is_removed at "note" breaks NOBODY;
    old { pub(super) struct M { a: u32, note: Option<String> } }
        writes [M { a: 1, note: None }, M { a: 1, note: Some(text()) }]
    new { pub(super) struct M { a: u32 } } writes [M { a: 1 }]

    a_required_field_is_removed at "b" breaks FORWARD;
    old { pub(super) struct M { a: u32, b: u32 } } writes [M { a: 1, b: 2 }]
    new { pub(super) struct M { a: u32 } } writes [M { a: 1 }]

    a_required_field_is_renamed at "amount" breaks BOTH;
    old { pub(super) struct M { total: u32 } } writes [M { total: 1 }]
    new { pub(super) struct M { amount: u32, #[serde(skip)] _total: u32 } }
        writes [M { amount: 1, _total: 0 }]

    // Both can be read, and the value is lost: what the verdict says is that a field went and another came.
    an_optional_field_is_renamed at "remark" breaks NOBODY;
    old { pub(super) struct M { note: Option<String> } } writes [M { note: Some(text()) }]
    new { pub(super) struct M { remark: Option<String> } } writes [M { remark: Some(text()) }]

    a_number_is_widened at "a" breaks FORWARD;
    old { pub(super) struct M { a: u32 } } writes [M { a: u32::MAX }]
    new { pub(super) struct M { a: u64 } } writes [M { a: u64::MAX }]

    a_number_is_narrowed at "a" breaks BACKWARD;
    old { pub(super) struct M { a: u64 } } writes [M { a: u64::MAX }]
    new { pub(super) struct M { a: u32 } } writes [M { a: u32::MAX }]

    a_small_number_is_widened at "a" breaks FORWARD;
    old { pub(super) struct M { a: u8 } } writes [M { a: u8::MAX }]
    new { pub(super) struct M { a: u16 } } writes [M { a: u16::MAX }]

    a_number_gets_a_sign at "a" breaks BOTH;
    old { pub(super) struct M { a: u32 } } writes [M { a: u32::MAX }]
    new { pub(super) struct M { a: i32 } } writes [M { a: -1 }]

    a_number_becomes_a_string at "a" breaks BOTH;
    old { pub(super) struct M { a: i64 } } writes [M { a: 1 }]
    new { pub(super) struct M { a: String } } writes [M { a: text() }]

    a_field_may_be_null at "a" breaks FORWARD;
    old { pub(super) struct M { a: String } } writes [M { a: text() }]
    new { pub(super) struct M { a: Option<String> } } writes [M { a: None }]

    a_field_may_no_longer_be_null at "a" breaks BACKWARD;
    old { pub(super) struct M { a: Option<String> } } writes [M { a: None }, M { a: Some(text()) }]
    new { pub(super) struct M { a: String } } writes [M { a: text() }]

    // A default stands in for what is missing, and not for what is null.
    a_field_has_a_default_instead_of_null at "a" breaks BACKWARD;
    old { pub(super) struct M { a: Option<String> } } writes [M { a: None }]
    new { pub(super) struct M { #[serde(default)] a: String } } writes [M { a: text() }]

    a_whole_number_becomes_a_fraction at "a" breaks FORWARD;
    old { pub(super) struct M { a: i32 } } writes [M { a: 1 }]
    new { pub(super) struct M { a: f64 } } writes [M { a: 1.5 }]

    a_fraction_becomes_a_whole_number at "a" breaks BACKWARD;
    old { pub(super) struct M { a: f64 } } writes [M { a: 1.5 }]
    new { pub(super) struct M { a: i32 } } writes [M { a: 1 }]

    a_string_becomes_an_id at "a" breaks BACKWARD;
    old { pub(super) struct M { a: String } } writes [M { a: text() }]
    new { pub(super) struct M { a: Uuid } } writes [M { a: Uuid::nil() }]

    an_id_becomes_a_string at "a" breaks FORWARD;
    old { pub(super) struct M { a: Uuid } } writes [M { a: Uuid::nil() }]
    new { pub(super) struct M { a: String } } writes [M { a: text() }]

    a_character_becomes_a_string at "a" breaks FORWARD;
    old { pub(super) struct M { a: char } } writes [M { a: 'ü' }]
    new { pub(super) struct M { a: String } } writes [M { a: text() }]

    a_flag_becomes_a_choice at "a" breaks BOTH;
    old { pub(super) struct M { a: bool } } writes [M { a: true }]
    new {
        pub(super) struct M { a: Choice }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes, No }
    } writes [M { a: Choice::Yes }, M { a: Choice::No }]

    a_choice_is_added at "a" breaks FORWARD;
    old {
        pub(super) struct M { a: Choice }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes }
    } writes [M { a: Choice::Yes }]
    new {
        pub(super) struct M { a: Choice }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes, No }
    } writes [M { a: Choice::Yes }, M { a: Choice::No }]

    a_choice_is_removed at "a" breaks BACKWARD;
    old {
        pub(super) struct M { a: Choice }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes, No }
    } writes [M { a: Choice::Yes }, M { a: Choice::No }]
    new {
        pub(super) struct M { a: Choice }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes }
    } writes [M { a: Choice::Yes }]

    a_choice_is_renamed at "a" breaks BOTH;
    old {
        pub(super) struct M { a: Choice }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes, No }
    } writes [M { a: Choice::Yes }, M { a: Choice::No }]
    new {
        pub(super) struct M { a: Choice }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes, #[serde(rename = "Never")] No }
    } writes [M { a: Choice::Yes }, M { a: Choice::No }]

    a_choice_of_an_option_is_added at "a" breaks FORWARD;
    old {
        pub(super) struct M { a: Option<Choice> }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes }
    } writes [M { a: None }, M { a: Some(Choice::Yes) }]
    new {
        pub(super) struct M { a: Option<Choice> }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { Yes, No }
    } writes [M { a: Some(Choice::Yes) }, M { a: Some(Choice::No) }]

    a_variant_with_data_is_added at "" breaks FORWARD;
    old { pub(super) enum M { Card { number: String } } } writes [M::Card { number: text() }]
    new { pub(super) enum M { Card { number: String }, Cash(u32) } }
        writes [M::Card { number: text() }, M::Cash(5)]

    a_variant_with_data_is_removed at "" breaks BACKWARD;
    old { pub(super) enum M { Card { number: String }, Cash(u32) } }
        writes [M::Card { number: text() }, M::Cash(5)]
    new { pub(super) enum M { Card { number: String } } } writes [M::Card { number: text() }]

    a_variant_gets_data at "" breaks BOTH;
    old { pub(super) enum M { Cash, Card } } writes [M::Cash, M::Card]
    new { pub(super) enum M { Cash(u32), Card } } writes [M::Cash(5), M::Card]

    a_variant_gets_a_required_field at "Card.name" breaks BACKWARD;
    old { pub(super) enum M { Card { number: String }, Cash } } writes [M::Card { number: text() }, M::Cash]
    new { pub(super) enum M { Card { number: String, name: String }, Cash } }
        writes [M::Card { number: text(), name: text() }, M::Cash]

    a_tagged_variant_is_added at "" breaks FORWARD;
    old { #[serde(tag = "kind")] pub(super) enum M { Card { number: String } } }
        writes [M::Card { number: text() }]
    new { #[serde(tag = "kind")] pub(super) enum M { Card { number: String }, Cash { cents: u32 } } }
        writes [M::Card { number: text() }, M::Cash { cents: 5 }]

    a_field_of_a_tagged_variant_changes_its_type at "cents" breaks BOTH;
    old { #[serde(tag = "kind")] pub(super) enum M { Card { number: String }, Cash { cents: u32 } } }
        writes [M::Card { number: text() }, M::Cash { cents: 5 }]
    new { #[serde(tag = "kind")] pub(super) enum M { Card { number: String }, Cash { cents: String } } }
        writes [M::Card { number: text() }, M::Cash { cents: text() }]

    a_tag_is_renamed at "kind" breaks BOTH;
    old { #[serde(tag = "type")] pub(super) enum M { Cash { cents: u32 } } } writes [M::Cash { cents: 5 }]
    new { #[serde(tag = "kind")] pub(super) enum M { Cash { cents: u32 } } } writes [M::Cash { cents: 5 }]

    a_variant_with_tag_and_content_gets_an_optional_field at "c.note" breaks NOBODY;
    old { #[serde(tag = "t", content = "c")] pub(super) enum M { Cash { cents: u32 }, Gift } }
        writes [M::Cash { cents: 5 }, M::Gift]
    new { #[serde(tag = "t", content = "c")] pub(super) enum M { Cash { cents: u32, note: Option<String> }, Gift } }
        writes [M::Cash { cents: 5, note: Some(text()) }, M::Gift]

    an_untagged_variant_is_added at "" breaks FORWARD;
    old { #[serde(untagged)] pub(super) enum M { Number { n: u32 } } } writes [M::Number { n: 1 }]
    new { #[serde(untagged)] pub(super) enum M { Number { n: u32 }, Text { t: String } } }
        writes [M::Number { n: 1 }, M::Text { t: text() }]

    an_untagged_variant_is_removed at "" breaks BACKWARD;
    old { #[serde(untagged)] pub(super) enum M { Number { n: u32 }, Text { t: String } } }
        writes [M::Number { n: 1 }, M::Text { t: text() }]
    new { #[serde(untagged)] pub(super) enum M { Number { n: u32 } } } writes [M::Number { n: 1 }]

    a_rule_is_tightened at "a" breaks BACKWARD;
    old { #[derive(garde::Validate)] pub(super) struct M { #[garde(range(min = 0))] a: i64 } }
        writes [M { a: 0 }]
    new { #[derive(garde::Validate)] pub(super) struct M { #[garde(range(min = 1))] a: i64 } }
        writes [M { a: 1 }]

    a_rule_is_loosened at "a" breaks FORWARD;
    old { #[derive(garde::Validate)] pub(super) struct M { #[garde(range(max = 10))] a: i64 } }
        writes [M { a: 10 }]
    new { #[derive(garde::Validate)] pub(super) struct M { #[garde(range(max = 11))] a: i64 } }
        writes [M { a: 11 }]

    a_rule_is_added at "a" breaks BACKWARD;
    old { pub(super) struct M { a: String } } writes [M { a: String::new() }]
    new { #[derive(garde::Validate)] pub(super) struct M { #[garde(length(min = 1))] a: String } }
        writes [M { a: text() }]

    a_rule_is_removed at "a" breaks FORWARD;
    old { #[derive(garde::Validate)] pub(super) struct M { #[garde(length(min = 1, max = 4))] a: String } }
        writes [M { a: text() }]
    new { pub(super) struct M { a: String } } writes [M { a: String::new() }]

    a_text_has_to_be_an_address at "a" breaks BACKWARD;
    old { pub(super) struct M { a: String } } writes [M { a: text() }]
    new { #[derive(garde::Validate)] pub(super) struct M { #[garde(email)] a: String } }
        writes [M { a: "a@example.com".to_owned() }]

    a_text_has_to_be_of_another_pattern at "a" breaks BOTH;
    old { #[derive(garde::Validate)] pub(super) struct M { #[garde(pattern("^a+$"))] a: String } }
        writes [M { a: "aa".to_owned() }]
    new { #[derive(garde::Validate)] pub(super) struct M { #[garde(pattern("^b+$"))] a: String } }
        writes [M { a: "bb".to_owned() }]

    a_list_may_not_be_empty at "a" breaks BACKWARD;
    old { pub(super) struct M { a: Vec<u32> } } writes [M { a: vec![] }]
    new { #[derive(garde::Validate)] pub(super) struct M { #[garde(length(min = 1))] a: Vec<u32> } }
        writes [M { a: vec![1] }]

    a_nested_type_gets_an_optional_field at "line.note" breaks NOBODY;
    old { pub(super) struct M { line: Line } } writes [M { line: line() }]
    new {
        pub(super) struct M { line: Own }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) struct Own { sku: String, note: Option<String> }
    } writes [M { line: Own { sku: text(), note: None } }]

    a_nested_type_gets_a_required_field at "line.count" breaks BACKWARD;
    old { pub(super) struct M { line: Line } } writes [M { line: line() }]
    new {
        pub(super) struct M { line: Own }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) struct Own { sku: String, count: u32 }
    } writes [M { line: Own { sku: text(), count: 1 } }]

    a_nested_type_is_no_longer_optional at "line" breaks BACKWARD;
    old { pub(super) struct M { line: Option<Line> } } writes [M { line: None }]
    new { pub(super) struct M { line: Line } } writes [M { line: line() }]

    items_change_their_type at "a[]" breaks BOTH;
    old { pub(super) struct M { a: Vec<u32> } } writes [M { a: vec![1] }]
    new { pub(super) struct M { a: Vec<String> } } writes [M { a: vec![text()] }]

    items_get_a_required_field at "lines[].count" breaks BACKWARD;
    old { pub(super) struct M { lines: Vec<Line> } } writes [M { lines: vec![line()] }]
    new {
        pub(super) struct M { lines: Vec<Own> }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) struct Own { sku: String, count: u32 }
    } writes [M { lines: vec![Own { sku: text(), count: 1 }] }]

    a_value_becomes_a_list at "a" breaks BOTH;
    old { pub(super) struct M { a: u32 } } writes [M { a: 1 }]
    new { pub(super) struct M { a: Vec<u32> } } writes [M { a: vec![1] }]

    a_set_becomes_a_list at "a" breaks NOBODY;
    old { pub(super) struct M { a: BTreeSet<u32> } } writes [M { a: BTreeSet::from([1]) }]
    new { pub(super) struct M { a: Vec<u32> } } writes [M { a: vec![1, 1] }]

    a_tuple_grows at "a" breaks BOTH;
    old { pub(super) struct M { a: (u32, u32) } } writes [M { a: (1, 2) }]
    new { pub(super) struct M { a: (u32, u32, u32) } } writes [M { a: (1, 2, 3) }]

    values_of_a_map_are_widened at "a.*" breaks FORWARD;
    old { pub(super) struct M { a: BTreeMap<String, u32> } }
        writes [M { a: BTreeMap::from([(text(), 1)]) }]
    new { pub(super) struct M { a: BTreeMap<String, u64> } }
        writes [M { a: BTreeMap::from([(text(), u64::MAX)]) }]

    values_of_a_map_get_a_required_field at "a.*.count" breaks BACKWARD;
    old { pub(super) struct M { a: BTreeMap<String, Line> } }
        writes [M { a: BTreeMap::from([(text(), line())]) }]
    new {
        pub(super) struct M { a: BTreeMap<String, Own> }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) struct Own { sku: String, count: u32 }
    } writes [M { a: BTreeMap::from([(text(), Own { sku: text(), count: 1 })]) }]

    keys_of_a_map_become_numbers at "a" breaks BACKWARD;
    old { pub(super) struct M { a: BTreeMap<String, u32> } }
        writes [M { a: BTreeMap::from([(text(), 1)]) }]
    new { pub(super) struct M { a: BTreeMap<u32, u32> } } writes [M { a: BTreeMap::from([(7, 1)]) }]

    a_choice_of_keys_is_added at "a.B" breaks FORWARD;
    old {
        pub(super) struct M { a: BTreeMap<Choice, u32> }
        #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { A }
    } writes [M { a: BTreeMap::from([(Choice::A, 1)]) }]
    new {
        pub(super) struct M { a: BTreeMap<Choice, u32> }
        #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub(super) enum Choice { A, B }
    } writes [M { a: BTreeMap::from([(Choice::B, 1)]) }]

    an_array_becomes_a_list at "a" breaks FORWARD;
    old { pub(super) struct M { a: [u32; 2] } } writes [M { a: [1, 2] }]
    new { pub(super) struct M { a: Vec<u32> } } writes [M { a: vec![1] }]

    a_fraction_is_narrowed at "a" breaks BACKWARD;
    old { pub(super) struct M { a: f64 } } writes [M { a: 1e300 }]
    new { pub(super) struct M { a: f32 } } writes [M { a: 1.5 }]

    a_large_number_gets_a_sign at "a" breaks BACKWARD;
    old {
        #[derive(garde::Validate)]
        pub(super) struct M { #[garde(range(max = 9_223_372_036_854_775_808_u64))] a: u64 }
    } writes [M { a: 9_223_372_036_854_775_808 }]
    new { #[derive(garde::Validate)] pub(super) struct M { #[garde(range(min = 0))] a: i64 } }
        writes [M { a: i64::MAX }]

    a_rule_for_large_numbers_is_tightened at "a" breaks BACKWARD;
    old { #[derive(garde::Validate)] pub(super) struct M { #[garde(range(max = 9_007_199_254_740_993_u64))] a: u64 } }
        writes [M { a: 9_007_199_254_740_993 }]
    new { #[derive(garde::Validate)] pub(super) struct M { #[garde(range(max = 9_007_199_254_740_992_u64))] a: u64 } }
        writes [M { a: 9_007_199_254_740_992 }]

    a_number_may_not_be_zero at "a" breaks BACKWARD;
    old { pub(super) struct M { a: u32 } } writes [M { a: 0 }]
    new { pub(super) struct M { a: std::num::NonZeroU32 } }
        writes [M { a: std::num::NonZeroU32::MIN }]

    all_other_fields_are_collected at "b" breaks BOTH;
    old { pub(super) struct M { a: u32, b: String } } writes [M { a: 1, b: text() }]
    new {
        pub(super) struct M { a: u32, #[serde(flatten)] rest: BTreeMap<String, u32> }
    } writes [M { a: 1, rest: BTreeMap::new() }]

    a_flattened_choice_is_added at "" breaks FORWARD;
    old {
        pub(super) struct M { a: u32, #[serde(flatten)] pay: Pay }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "by")]
        pub(super) enum Pay { Cash { cents: u32 } }
    } writes [M { a: 1, pay: Pay::Cash { cents: 1 } }]
    new {
        pub(super) struct M { a: u32, #[serde(flatten)] pay: Pay }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "by")]
        pub(super) enum Pay { Cash { cents: u32 }, Card { number: String } }
    } writes [M { a: 1, pay: Pay::Card { number: text() } }]

    a_field_of_an_option_becomes_a_unit at "a" breaks BACKWARD;
    old { pub(super) struct M { a: Option<u32> } } writes [M { a: Some(1) }]
    new { pub(super) struct M { a: () } } writes [M { a: () }]

    a_map_becomes_a_struct at "a.sku" breaks BACKWARD;
    old { pub(super) struct M { a: BTreeMap<String, String> } } writes [M { a: BTreeMap::new() }]
    new { pub(super) struct M { a: Line } } writes [M { a: line() }]

    a_struct_becomes_a_map at "a.sku" breaks FORWARD;
    old { pub(super) struct M { a: Line } } writes [M { a: line() }]
    new { pub(super) struct M { a: BTreeMap<String, String> } } writes [M { a: BTreeMap::new() }]

    unknown_fields_are_refused_from_now_on at "" breaks NOBODY;
    old { pub(super) struct M { a: u32 } } writes [M { a: 1 }]
    new { #[serde(deny_unknown_fields)] pub(super) struct M { a: u32 } } writes [M { a: 1 }]

    a_field_goes_and_unknown_ones_are_refused at "b" breaks BACKWARD;
    old { pub(super) struct M { a: u32, b: Option<u32> } } writes [M { a: 1, b: None }]
    new { #[serde(deny_unknown_fields)] pub(super) struct M { a: u32 } } writes [M { a: 1 }]

    an_optional_field_comes_where_unknown_ones_are_refused at "b" breaks FORWARD;
    old { #[serde(deny_unknown_fields)] pub(super) struct M { a: u32 } } writes [M { a: 1 }]
    new { #[serde(deny_unknown_fields)] pub(super) struct M { a: u32, b: Option<u32> } }
        writes [M { a: 1, b: None }]

    a_type_within_gets_another_name at "line" breaks NOBODY;
    old { pub(super) struct M { line: Line } } writes [M { line: line() }]
    new {
        pub(super) struct M { line: Row }
        /// In other words.
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) struct Row { sku: String }
    } writes [M { line: Row { sku: text() } }]

    a_field_is_described at "a" breaks NOBODY;
    old { pub(super) struct M { a: u32 } } writes [M { a: 1 }]
    new {
        pub(super) struct M {
            /// What it is.
            a: u32,
        }
    } writes [M { a: 1 }]

    fields_stand_in_another_order at "-" breaks NOBODY;
    old { pub(super) struct M { a: u32, b: u32 } } writes [M { a: 1, b: 2 }]
    new { pub(super) struct M { b: u32, a: u32 } } writes [M { a: 1, b: 2 }]

    a_value_is_boxed_and_wrapped at "-" breaks NOBODY;
    old { pub(super) struct M { a: String } } writes [M { a: text() }]
    new {
        pub(super) struct M { a: Box<Name> }
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(inline)]
        pub(super) struct Name(String);
    } writes [M { a: Box::new(Name(text())) }]

    fields_are_put_together_and_flattened at "-" breaks NOBODY;
    old { pub(super) struct M { a: u32, sku: String } } writes [M { a: 1, sku: text() }]
    new { pub(super) struct M { a: u32, #[serde(flatten)] line: Line } } writes [M { a: 1, line: line() }]

    all_fields_are_written_in_another_case at "firstName" breaks BOTH;
    old { pub(super) struct M { first_name: String } } writes [M { first_name: text() }]
    new { #[serde(rename_all = "camelCase")] pub(super) struct M { first_name: String } }
        writes [M { first_name: text() }]

    an_empty_field_is_left_out at "note" breaks NOBODY;
    old { pub(super) struct M { note: Option<String> } } writes [M { note: None }]
    new { pub(super) struct M { #[serde(skip_serializing_if = "Option::is_none")] note: Option<String> } }
        writes [M { note: None }]

    an_empty_list_is_left_out at "a" breaks FORWARD;
    old { pub(super) struct M { a: Vec<u32> } } writes [M { a: vec![] }]
    new { pub(super) struct M { #[serde(default, skip_serializing_if = "Vec::is_empty")] a: Vec<u32> } }
        writes [M { a: vec![] }]

    a_field_gets_a_default at "a" breaks NOBODY;
    old { pub(super) struct M { a: u32 } } writes [M { a: 1 }]
    new { pub(super) struct M { #[serde(default)] a: u32 } } writes [M { a: 1 }]

    a_field_loses_its_default at "a" breaks NOBODY;
    old { pub(super) struct M { #[serde(default)] a: u32 } } writes [M { a: 1 }]
    new { pub(super) struct M { a: u32 } } writes [M { a: 1 }]

    a_type_that_contains_itself_gets_an_optional_field at "name" breaks NOBODY;
    old { pub(super) struct M { children: Vec<M> } } writes [M { children: vec![M { children: vec![] }] }]
    new { pub(super) struct M { children: Vec<M>, name: Option<String> } }
        writes [M { children: vec![], name: Some(text()) }]

    a_type_that_contains_itself_gets_a_required_field at "name" breaks BACKWARD;
    old { pub(super) struct M { children: Vec<M> } } writes [M { children: vec![M { children: vec![] }] }]
    new { pub(super) struct M { children: Vec<M>, name: String } }
        writes [M { children: vec![], name: text() }]
}
