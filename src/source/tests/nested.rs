//! What is read of objects that nest deeply.

use proptest::prelude::{any, prop};
use proptest::proptest;

use crate::crd::DEFINITION_LEVELS;
use crate::manifest::yaml::{Syntax, documents};
use crate::model::Version;
use crate::source::feed::named;
use crate::source::resources::definition;
use fieldcache_testing::nested::{self, MAX_LEVELS, Nested, Nesting, on_worker_stack};

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
        let spec = Nested::new(depth, Nesting::Lists).text();
        let object = format!(r#"{{"metadata":{{"name":"x","namespace":"n","resourceVersion":"7"}},"spec":{spec}}}"#);
        let found = on_worker_stack(|| named(object.as_bytes())).unwrap();
        assert_eq!((found.key.as_str(), found.version), ("n/x", Some(Version::new(7))), "{depth}");
    }
}

/// The same value as YAML in block style.
fn block(nested: &Nested) -> String {
    let mut text = String::new();
    for level in 0..nested.depth {
        text.push_str(if nested.is_list(level) { "- " } else { "? a\n" });
        if !nested.is_list(level) {
            text.push_str(&" ".repeat(2 * level));
            text.push_str(": ");
        }
    }
    text + "1\n"
}

#[test]
fn nested_manifests_are_rejected_at_their_bound() {
    for shape in [Nesting::Lists, Nesting::Maps, Nesting::Mixed(vec![true, false])] {
        for (depth, fits) in
            [(90, true), (110, false), (128, false), (1000, false), (MAX_LEVELS, false), (100_000, false)]
        {
            let nested = Nested::new(depth, shape.clone());
            let manifest = |value: &str| format!("{{\"kind\":\"K\",\"value\":{value}}}");
            for (form, text) in [
                (Syntax::Json, manifest(&nested.text())),
                (Syntax::Yaml, manifest(&nested.text())),
                (Syntax::Yaml, format!("kind: K\nvalue: {}", nested.text())),
            ] {
                let (found, broken) = on_worker_stack(|| documents(text.as_bytes(), form));
                assert_eq!((found.len(), broken.is_empty()), (usize::from(fits), fits), "{shape:?} {depth} {form:?}");
            }
        }
        let nested = Nested::new(2_000, shape);
        let (found, broken) = on_worker_stack(|| documents(block(&nested).as_bytes(), Syntax::Yaml));
        assert_eq!((found.len(), broken.len()), (0, 1));
    }
}

proptest! {
    #[test]
    fn broken_nested_manifests_break_nothing(
        text in nested::texts(MAX_LEVELS, &["a", "items", "kind"]),
        place in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"\"\\{}[]:, -&*|\n".to_vec()),
        is_yaml in any::<bool>(),
    ) {
        let mut bytes = if is_yaml { format!("kind: K\nitems: {text}") } else { text }.into_bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        on_worker_stack(|| {
            let _ = (documents(&bytes, Syntax::Yaml), documents(&bytes, Syntax::Json));
            let _ = (named(&bytes).is_some(), definition(&bytes).is_ok());
        });
    }
}
