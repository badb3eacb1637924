//! The catalogue of the example, held against AsyncAPI's own schema.

use serde_json::Value;

#[path = "../../../examples/catalogue.rs"]
#[expect(
    dead_code,
    reason = "the example's `main` and its fields are for who runs it"
)]
mod shop;

/// AsyncAPI's schema of its documents, which `scripts/setup` gets from the package registry.
fn asyncapi_schema() -> Value {
    let path = std::env::var("OUTBOX_TEST_ASYNCAPI")
        .expect("scripts/test names the schema's file in OUTBOX_TEST_ASYNCAPI");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).expect("it is JSON")
}

fn errors(validator: &jsonschema::Validator, document: &Value) -> Vec<String> {
    let errors = validator.iter_errors(document);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn the_document_is_one_by_asyncapis_own_schema() {
    let validator = jsonschema::validator_for(&asyncapi_schema()).expect("a schema");
    let document = shop::catalogue().asyncapi();
    let none: Vec<String> = Vec::new();
    assert_eq!(errors(&validator, &document), none, "{document:#}");

    let mut broken = document.clone();
    broken["operations"]["publish.orders.shipped.v1"]["action"] = "shout".into();
    assert_ne!(errors(&validator, &broken), none, "the schema can refuse");
}

#[test]
fn every_reference_leads_somewhere() {
    fn look(value: &Value, document: &Value, found: &mut usize) {
        match value {
            Value::Object(map) => {
                if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                    let pointer = target.strip_prefix('#').expect("within the document");
                    assert!(document.pointer(pointer).is_some(), "{target}");
                    *found += 1;
                }
                map.values().for_each(|value| look(value, document, found));
            }
            Value::Array(items) => items.iter().for_each(|value| look(value, document, found)),
            _ => {}
        }
    }
    let document = shop::catalogue().asyncapi();
    let mut found = 0;
    look(&document, &document, &mut found);
    assert!(found >= 10, "{found}");
}

#[test]
fn its_examples_keep_its_schemas() {
    let document = shop::catalogue().asyncapi();
    let messages = document["components"]["messages"].as_object();
    for (name, message) in messages.expect("there are some") {
        let mut schema = message["payload"].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let example = &message["examples"][0]["payload"];
        assert_eq!(
            errors(&validator, example),
            Vec::<String>::new(),
            "{name}: {example}"
        );
    }
}

#[test]
fn the_page_shows_all_of_it() {
    insta::assert_snapshot!(shop::catalogue().markdown());
}

#[test]
fn the_document_shows_all_of_it() {
    insta::assert_snapshot!(format!("{:#}", shop::catalogue().asyncapi()));
}
