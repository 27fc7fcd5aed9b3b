//! Values of a tree, read as values of serde_json are.

use proptest::{prop_assert_eq, proptest};
use serde_json::{Value, json};

use crate::json::Json;
use crate::json::tree::Tree;
use fieldcache_testing::json::written;

/// Compares both readers on a value and all values in it.
fn compare(json: Json<'_>, value: &Value) {
    assert_eq!(json.as_str().as_deref(), value.as_str(), "{value}");
    assert_eq!(
        (json.as_bool(), json.as_i64(), json.is_null()),
        (value.as_bool(), value.as_i64(), value.is_null()),
        "{value}"
    );
    assert_eq!(json.as_number().as_ref(), value.as_number(), "{value}");
    let (items, members) = (value.as_array(), value.as_object());
    assert_eq!(json.count(), items.map_or(0, Vec::len) + members.map_or(0, serde_json::Map::len), "{value}");
    assert_eq!(json.items().count(), items.map_or(0, Vec::len), "{value}");
    json.items().zip(items.into_iter().flatten()).for_each(|(json, value)| compare(json, value));
    // In the order of their keys, as those of a BTreeMap.
    let keys: Vec<String> = json.members().map(|(key, _)| key.into_owned()).collect();
    assert_eq!(keys, members.map_or_else(Vec::new, |members| members.keys().cloned().collect()), "{value}");
    json.members().zip(members.into_iter().flatten()).for_each(|((_, json), (_, value))| compare(json, value));
    for key in keys {
        compare(json.at(&key), &value[&key]);
    }
}

proptest! {
    #[test]
    fn a_value_in_place_equals_a_parsed_one(document in written()) {
        let tree = Tree::read(document.as_bytes()).unwrap();
        let value: Value = serde_json::from_str(&document).unwrap();
        compare(Json::root(Some(&tree)), &value);
        prop_assert_eq!(Json::root(Some(&tree)).at("absent key").at("x").count(), 0);
    }
}

#[test]
fn a_tree_has_at_most_the_requested_number_of_values() {
    let json = br#"{"a":[1,2,3],"b":{}}"#;
    assert!(Tree::read_at_most(json, 6).is_ok());
    assert!(Tree::read_at_most(json, 5).is_err());
    let many = format!("[{}0]", "0,".repeat(5_000));
    assert!(Tree::read_at_most(many.as_bytes(), 5_002).is_ok());
    assert!(Tree::read_at_most(many.as_bytes(), 5_001).is_err());
}

#[test]
fn members_are_found_by_their_keys_however_these_are_written() {
    let json = concat!(
        r#"{"a":1,"ab":2,"\u0061c":3,"a\"b":4,"a\\":5,"":6,"é":7,"\u00e9\u00e9":8,"a\u0062c":9,"twice":0,"twice":10,"#,
        r#""quoted":"x\":\"y","a\"":11,"a\":\"":12}"#
    );
    let tree = Tree::read(json.as_bytes()).unwrap();
    let found = |key: &str| Json::root(Some(&tree)).at(key).as_i64();
    let keys = ["a", "ab", "ac", "a\"b", "a\\", "", "é", "éé", "abc", "twice", "a\"", "a\":\""];
    for (key, expected) in keys.into_iter().zip([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) {
        assert_eq!(found(key), Some(expected), "{key:?}");
    }
    // Bytes that go on behind the quote of a key are no part of it.
    for key in ["a\":1,\"ab", "b", "abcd", "\\u0061c", "quoted\":\"x", "tw", "quoted\":\"x\\"] {
        assert_eq!(found(key), None, "{key:?}");
    }
}

#[test]
fn what_is_not_there_is_nothing() {
    let tree = Tree::read(b"[1, \"a\", null, {\"b\": [true]}]").unwrap();
    let root = Json::root(Some(&tree));
    assert!(root.at("b").is_null() && Json::NOTHING.at("b").is_null() && root.items().nth(2).unwrap().is_null());
    assert_eq!((root.count(), root.members().count(), Json::root(None).count()), (4, 0, 0));
    assert_eq!(root.items().nth(3).unwrap().at("b").items().next().unwrap().as_bool(), Some(true));
    compare(root, &json!([1, "a", null, { "b": [true] }]));
}
