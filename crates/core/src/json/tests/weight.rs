//! Estimates of the memory of values, beside the values themselves.

use proptest::prelude::{any, prop};
use proptest::{prop_assert, proptest};
use serde_json::{Value, json};

use crate::json::weight::{Overweight, is_within, memory_of, value_within};
use fieldcache_testing::json::written;

/// The least memory of a value besides itself: B-trees with full nodes, lists without spare capacity, texts.
fn least(value: &Value) -> usize {
    let node = 11 * (size_of::<String>() + size_of::<Value>());
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.len() * size_of::<Value>() + items.iter().map(least).sum::<usize>(),
        Value::Object(members) => {
            let inside = members.iter().map(|(key, member)| key.len() + least(member)).sum::<usize>();
            members.len().div_ceil(11) * node + inside
        }
    }
}

proptest! {
    #[test]
    fn a_value_takes_no_more_than_the_bound_of_its_text(document in written()) {
        let value: Value = serde_json::from_str(&document).unwrap();
        let bound = memory_of(document.as_bytes(), usize::MAX);
        prop_assert!(bound >= least(&value), "{}: {} and {}", document, bound, least(&value));
    }

    #[test]
    fn any_bytes_are_weighed(bytes in prop::collection::vec(prop::sample::select(b"\"\\{}[]:, x0\xff".to_vec()), 0..60), most in any::<u16>()) {
        let bound = memory_of(&bytes, usize::MAX);
        prop_assert!(bound >= bytes.len());
        prop_assert!((bound <= usize::from(most)) == is_within(&bytes, usize::from(most)));
    }
}

#[test]
fn small_objects_weigh_as_much_as_they_take() {
    let weight = |text: &str| memory_of(text.as_bytes(), usize::MAX);
    let per_value = |text: &str| {
        let many = |count: usize| weight(&format!("[{}]", vec![text; count].join(",")));
        (many(1_001) - many(1)) / 1_000
    };
    assert!((640..800).contains(&per_value(r#"{"":0}"#)), "a node for one member");
    assert!(
        (640..1_100).contains(&per_value(r#"{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0}"#))
    );
    assert!((2_000..3_000).contains(&per_value(r#"{"a":{"b":{"c":1}}}"#)));
    assert!((32..100).contains(&per_value("0")));
    assert!((32..100).contains(&per_value("{}")));
    assert!((32..100).contains(&per_value("{ }")));
    let wide: serde_json::Map<String, Value> = (0..1_000).map(|number| (number.to_string(), json!(0))).collect();
    let wide = weight(&Value::Object(wide).to_string());
    assert!((100_000..200_000).contains(&wide), "{wide}");
    let braces = weight(&json!("{[,".repeat(1_000)).to_string());
    assert!(braces < 4_000, "texts hold no values: {braces}");
}

#[test]
fn a_node_that_is_full_becomes_three() {
    let members = |count: usize| -> usize {
        let object: serde_json::Map<String, Value> = (0..count).map(|number| (number.to_string(), json!(0))).collect();
        memory_of(Value::Object(object).to_string().as_bytes(), usize::MAX)
    };
    assert!(members(11) < 1_000);
    assert!(members(12) > 2 * 640 + 736);
}

#[test]
fn a_text_without_an_end_is_weighed_no_further_than_its_bound() {
    let open = vec![b'['; 1 << 20];
    assert!(memory_of(&open, 2 << 20) < 3 << 20);
    assert!(matches!(value_within(&open, 2 << 20), Err(Overweight::TooMuch(2_097_152))));
    assert!(matches!(value_within(b"[", 2 << 20), Err(Overweight::Syntax(_))));
    assert_eq!(value_within(br#"{"a":[1]}"#, 2 << 20), Ok(json!({"a": [1]})));
    assert!(matches!(value_within(br#"{"a":[1]}"#, 640), Err(Overweight::TooMuch(640))));
}
