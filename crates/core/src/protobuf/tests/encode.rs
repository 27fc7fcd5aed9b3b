//! Objects to bytes.

use crate::protobuf::envelope::{END, List, ListFields, ProtobufEnvelope, begin_event};
use crate::protobuf::{EncodeErrorReason, Encoder, MessageTable};

use super::{refused, written, written_in};

#[test]
fn a_small_object_is_these_bytes() {
    // Texts and numbers of the metadata are written even if they are empty, and members of maps in the order of their
    // keys.
    let bytes = written("v1", "ConfigMap", r#"{"metadata":{"name":"n"},"data":{"b":"2","a":""}}"#).unwrap();
    let metadata = b"\x0a\x11\x0a\x01n\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0";
    let data = b"\x12\x05\x0a\x01a\x12\0\x12\x06\x0a\x01b\x12\x012";
    assert_eq!(bytes.escape_ascii().to_string(), [&metadata[..], data].concat().escape_ascii().to_string());
}

/// kube-apiserver's JSON has equal keys where its own differ in bytes that are not UTF-8.
#[test]
fn keys_that_are_equal_are_all_written_in_their_order() {
    let of = |json: &str| written("v1", "ConfigMap", json).unwrap().escape_ascii().to_string();
    let data = b"\x12\x06\x0a\x01a\x12\x012\x12\x06\x0a\x01b\x12\x011\x12\x06\x0a\x01b\x12\x013";
    let bytes = of(r#"{"metadata":{},"data":{"b":"1","a":"2","b":"3"}}"#);
    assert!(bytes.ends_with(&data.escape_ascii().to_string()), "{bytes}");
}

#[test]
fn the_order_of_members_does_not_count() {
    let one = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","labels":{"a":"1","b":"2"}},"spec":{"nodeName":"x","hostPID":true}}"#;
    let two = r#"{"spec":{"hostPID":true,"nodeName":"x"},"metadata":{"labels":{"b":"2","a":"1"},"name":"n"},"kind":"Pod","apiVersion":"v1"}"#;
    assert_eq!(written("v1", "Pod", one), written("v1", "Pod", two));
}

#[test]
fn fields_that_the_message_lacks_are_rejected_with_their_path() {
    let of = |json: &str| refused("v1", "Pod", json);
    assert_eq!(of(r#"{"spec":{"new":1}}"#), ("spec.new".into(), EncodeErrorReason::UnknownField));
    assert_eq!(
        of(r#"{"spec":{"containers":[{},{"ports":[{"x":1}]}]}}"#),
        ("spec.containers[1].ports[0].x".into(), EncodeErrorReason::UnknownField)
    );
    assert_eq!(of(r#"{"metadata":{"name":1}}"#), ("metadata.name".into(), EncodeErrorReason::NotA("a string")));
    assert_eq!(
        of(r#"{"metadata":{"labels":{"a":1}}}"#),
        ("metadata.labels[a]".into(), EncodeErrorReason::NotA("a string"))
    );
    assert_eq!(of(r#"{"metadata":{},"metadata":{}}"#), ("metadata".into(), EncodeErrorReason::Repeated));
    assert_eq!(of(r#"{"spec":{"hostPID":"true"}}"#), ("spec.hostPID".into(), EncodeErrorReason::NotA("a boolean")));
    assert_eq!(of(r#"{"spec":{"priority":2147483648}}"#).1, EncodeErrorReason::NotA("a 32-bit integer"));
    assert_eq!(of(r#"{"spec":{"priority":1.5}}"#).1, EncodeErrorReason::NotA("a 32-bit integer"));
    assert_eq!(of(r#"{"spec":[]}"#), ("spec".into(), EncodeErrorReason::NotA("an object")));
    assert_eq!(of(r#"{"spec":{"containers":{}}}"#), ("spec.containers".into(), EncodeErrorReason::NotA("a list")));
    assert_eq!(refused("v1", "Secret", r#"{"data":{"a":"*"}}"#), ("data[a]".into(), EncodeErrorReason::NotA("base64")));
    let at = |offset, expected| (String::new(), EncodeErrorReason::NotJson { offset, expected });
    assert_eq!(of("{"), at(1, "a key"));
    assert_eq!(of("{} x"), at(3, "the end of the object"));
    assert_eq!(of("[]").1, EncodeErrorReason::NotA("an object"));
}

/// A Pod of a cluster that is newer than the version must not lose a field.
#[test]
fn fields_belong_to_minor_versions() {
    let json = r#"{"status":{"resourceClaimStatuses":[],"observedGeneration":3}}"#;
    let has = |minor| written_in(minor, "v1", "Pod", json).is_ok();
    assert!(!has(32) && has(36));
    // Fields that are always written are written only in versions that have them.
    let length = |minor| written_in(minor, "v1", "Pod", "{}").unwrap().len();
    assert!(length(32) < length(36), "{} {}", length(32), length(36));
}

#[test]
fn texts_that_are_no_utf8_are_replaced_as_go_does() {
    let kind = MessageTable::for_minor(36).unwrap().kind("v1", "ConfigMap").unwrap();
    let mut encoder = Encoder::default();
    let mut out = Vec::new();
    encoder.read(kind, b"{\"data\":{\"a\":\"x\xffy\"}}").unwrap().write(&mut out);
    assert!(out.ends_with("x\u{fffd}y".as_bytes()), "{}", out.escape_ascii());
}

/// Schemas nest; the stack of a usual thread must suffice for the permitted depth.
#[test]
fn nesting_has_an_end() {
    let nested = |levels: usize| {
        let schema = format!("{}{{}}{}", r#"{"not":"#.repeat(levels), "}".repeat(levels));
        let version = format!(r#"{{"name":"v1","schema":{{"openAPIV3Schema":{schema}}}}}"#);
        let json = format!(r#"{{"spec":{{"versions":[{version}]}}}}"#);
        written("apiextensions.k8s.io/v1", "CustomResourceDefinition", &json)
    };
    assert!(nested(200).is_ok());
    assert_eq!(nested(300).map_err(|error| error.reason), Err(EncodeErrorReason::TooDeep));
    assert_eq!(nested(100_000).map_err(|error| error.reason), Err(EncodeErrorReason::TooDeep));
}

/// An object that is small in JSON and large here ends before the memory does.
#[test]
fn memory_has_an_end() {
    let json = format!(r#"{{"spec":{{"containers":[{}{{}}]}}}}"#, "{},".repeat(1_000_000));
    assert_eq!(refused("v1", "Pod", &json).1, EncodeErrorReason::TooLarge);
}

#[test]
fn an_excerpt_is_the_metadata_of_anything() {
    let kind = MessageTable::for_minor(36).unwrap().partial().unwrap();
    let mut encoder = Encoder::default();
    let (mut partial_store, mut whole) = (Vec::new(), Vec::new());
    let json = br#"{"spec":[{"a":1}],"metadata":{"name":"n"},"any":null}"#;
    encoder.read(kind, json).unwrap().write(&mut partial_store);
    encoder.read(kind, br#"{"metadata":{"name":"n"}}"#).unwrap().write(&mut whole);
    assert_eq!(partial_store, whole);
    let error = encoder.read(kind, br#"{"metadata":{"new":1}}"#).err().unwrap();
    assert_eq!(
        error.to_string(),
        "metadata.new cannot be encoded as protobuf: unknown field in this Kubernetes version"
    );
}

#[test]
fn the_envelope_of_a_message_is_as_long_as_announced() {
    for length in [0, 1, 127, 128, 20_000] {
        let envelope = ProtobufEnvelope { api_version: "apps/v1", kind: "Deployment" };
        let mut out = Vec::new();
        envelope.begin(length, &mut out);
        assert_eq!(out.len() + length + END.len(), envelope.length(length));
        for fields in [ListFields::USUAL, ListFields::PARTIAL_V1BETA1] {
            let list = List { envelope, metadata: b"metadata", fields };
            let mut out = Vec::new();
            list.begin(List::item_length(length), &mut out);
            list.begin_item(length, &mut out);
            out.extend(vec![0; length]);
            list.end(&mut out);
            assert_eq!(out.len(), list.length(List::item_length(length)));
        }
        let mut out = Vec::new();
        begin_event("ADDED", length, &mut out);
        let announced = u32::from_be_bytes(*out.first_chunk().unwrap()) as usize;
        assert_eq!(out.len() + length, 4 + announced);
    }
}

/// The encoder compares the fields of one object with those of the next one in the same place.
#[test]
fn objects_have_no_influence_on_the_next_ones() {
    let long = format!("{{\"f:{}\":{{}}}}", "x".repeat(5_000));
    let raws = [
        "{}",
        r#"{"f:a":{}}"#,
        r#"{"f:a":{}}"#,
        r#"{"f:a":{},"f:b":{}}"#,
        r#"{"f:a":{}}"#,
        r#"{"f:a":{"f:b":{}}}"#,
        &long,
        &long,
        r#"{"f:}":{}}"#,
        "1",
        "12",
        r#""a""#,
        r#""a\"b""#,
        "[]",
        "[1]",
        "null",
        "{}",
    ];
    let mut encoder = Encoder::default();
    let kind = MessageTable::for_minor(36).unwrap().kind("v1", "Pod").unwrap();
    for (place, raw) in raws.iter().enumerate() {
        let others: Vec<_> =
            raws.iter().cycle().skip(place).take(place % 7).map(|raw| format!(r#"{{"fieldsV1":{raw}}}"#)).collect();
        let entries = [vec![format!(r#"{{"fieldsV1":{raw}}}"#)], others].concat().join(",");
        let json = format!(r#"{{"metadata":{{"managedFields":[{entries}],"name":"n"}},"spec":{{"hostPID":true}}}}"#);
        let mut ours = Vec::new();
        encoder.read(kind, json.as_bytes()).unwrap().write(&mut ours);
        let expected = written("v1", "Pod", &json).unwrap();
        assert_eq!(ours.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{json}");
    }
}
