//! What is read of objects that nest deeply.

use crate::extract::tree::DEFINITION_LEVELS;
use crate::model::Version;
use crate::source::cluster::definition;
use crate::source::feed::named;
use crate::testing::nested::{MAX_LEVELS, Nested, Shape, on_worker_stack};

/// A CustomResourceDefinition of so many levels.
fn definition_of(levels: usize) -> String {
    // Six containers are around the schema, and two more around the innermost one.
    let schemas = (levels - 6) / 2 - 1;
    let mut schema = String::new();
    for _ in 0..schemas {
        schema.push_str("{\"type\":\"object\",\"properties\":{\"a\":");
    }
    schema.push_str("{\"type\":\"object\",\"example\":{}}");
    schema.push_str(&"}}".repeat(schemas));
    format!(
        "{{\"metadata\":{{\"name\":\"deeps.e.com\"}},\"spec\":{{\"group\":\"e.com\",\"scope\":\"Namespaced\",\
         \"names\":{{\"plural\":\"deeps\",\"kind\":\"Deep\"}},\"versions\":[{{\"name\":\"v1\",\"served\":true,\"storage\":true,\
         \"schema\":{{\"openAPIV3Schema\":{schema}}}}}]}}}}"
    )
}

#[test]
fn definitions_are_read_to_their_own_bound() {
    for levels in [100, 126, 128, 130, 200, DEFINITION_LEVELS] {
        let crd = on_worker_stack(|| definition(definition_of(levels).as_bytes()).map(|crd| crd.names.kind));
        assert_eq!(crd.as_deref(), Ok("Deep"), "{levels}");
    }
    for levels in [DEFINITION_LEVELS + 2, MAX_LEVELS] {
        let crd = on_worker_stack(|| definition(definition_of(levels).as_bytes()).map(|crd| crd.names.kind));
        assert_eq!(crd, Err("it nests deeper than 500 levels".to_owned()), "{levels}");
    }
}

#[test]
fn an_object_that_cannot_be_extracted_is_known_by_name_at_any_depth() {
    for depth in [100, 128, 1000, MAX_LEVELS - 1] {
        let spec = Nested::new(depth, Shape::Lists).text();
        let object = format!(r#"{{"metadata":{{"name":"x","namespace":"n","resourceVersion":"7"}},"spec":{spec}}}"#);
        let found = on_worker_stack(|| named(object.as_bytes())).unwrap();
        assert_eq!((found.key.as_str(), found.version), ("n/x", Some(Version::new(7))), "{depth}");
    }
}
