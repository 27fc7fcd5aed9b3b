//! Protobuf: bytes derived by hand, and a reader of the plain wire format.

use serde_json::json;

use super::super::protobuf::{SkippedValue, encode, to_protobuf_v2, to_protobuf_v3, v2, v3};
use super::{shirts, v2_of, v3_of};

/// Fields of a message: number and content, of length-delimited fields only; other wire types are stepped over.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn number(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes);
        match tag & 7 {
            0 => {
                number(&mut bytes);
            }
            1 => bytes = &bytes[8..],
            2 => {
                let length = usize::try_from(number(&mut bytes)).unwrap();
                let (content, rest) = bytes.split_at(length);
                found.push((tag >> 3, content));
                bytes = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

/// Contents of all fields of that number.
fn all(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    fields(bytes).into_iter().filter(|(found, _)| *found == number).map(|(_, content)| content).collect()
}

/// The member of that name: `{name = 1, value = 2}` in a field of that number.
fn named<'a>(bytes: &'a [u8], number: u64, name: &str) -> Option<&'a [u8]> {
    let pair = all(bytes, number).into_iter().find(|pair| all(pair, 1) == [name.as_bytes()])?;
    all(pair, 2).first().copied()
}

/// A field: its tag as bytes, the length, the contents one after another.
fn part(tag: &[u8], contents: &[&[u8]]) -> Vec<u8> {
    let content = contents.concat();
    assert!(content.len() < 0x80, "one byte of length");
    [tag, &[u8::try_from(content.len()).unwrap()], &content].concat()
}

#[test]
fn a_small_v2_document_has_the_bytes_of_the_specification() {
    let document = json!({
        "swagger": "2.0",
        "info": {"title": "T", "version": "1"},
        "definitions": {"A": {"type": "string", "maxLength": 300, "uniqueItems": false, "x-k": ["a: b"]}},
    });
    let schema = [
        vec![0x58, 0xAC, 0x02],                               // maxLength = 11, a varint: 300
        part(&[0xB2, 0x01], &[&part(&[0x0A], &[b"string"])]), // type = 22: TypeItem.value = 1
        part(&[0xFA, 0x01], &[&part(&[0x0A], &[b"x-k"]), &part(&[0x12], &[&part(&[0x12], &[b"- 'a: b'\n"])])]), // vendor_extension = 31
    ]
    .concat();
    let expected = [
        part(&[0x0A], &[b"2.0"]),                                           // swagger = 1
        part(&[0x12], &[&part(&[0x0A], &[b"T"]), &part(&[0x12], &[b"1"])]), // info = 2
        part(&[0x4A], &[&part(&[0x0A], &[&part(&[0x0A], &[b"A"]), &part(&[0x12], &[&schema])])]), // definitions = 9
    ]
    .concat();
    assert_eq!(to_protobuf_v2(&document), expected);
}

#[test]
fn a_small_v3_document_has_the_bytes_of_the_specification() {
    let document = json!({"openapi": "3.0.0", "components": {"schemas": {
        "R": {"$ref": "#/x"},
        "S": {"default": false, "nullable": true, "minimum": 0.5, "additionalProperties": true},
        "T": {"default": {}, "additionalProperties": {"$ref": "y"}},
    }}});
    let reference = part(&[0x12], &[&part(&[0x0A], &[b"#/x"])]); // reference = 2
    let scalars = part(
        &[0x0A], // schema = 1
        &[
            &[0x08, 1],                            // nullable = 1
            &[0x69, 0, 0, 0, 0, 0, 0, 0xE0, 0x3F], // minimum = 13, eight bytes: 0.5
            &part(&[0x82, 0x02], &[&[0x10, 1]]),   // additional_properties = 32: boolean = 2
            &part(&[0x8A, 0x02], &[&[0x10, 0]]),   // default = 33: boolean = 2, kept though false
        ],
    );
    let containers = part(
        &[0x0A],
        &[
            &part(&[0x82, 0x02], &[&part(&[0x0A], &[&part(&[0x12], &[&part(&[0x0A], &[b"y"])])])]),
            &part(&[0x8A, 0x02], &[]), // an object has no place in a default: the message is empty
        ],
    );
    let named = |name: &[u8], value: &[u8]| part(&[0x0A], &[&part(&[0x0A], &[name]), &part(&[0x12], &[value])]);
    let schemas = part(&[0x0A], &[&named(b"R", &reference), &named(b"S", &scalars), &named(b"T", &containers)]);
    let expected = [part(&[0x0A], &[b"3.0.0"]), part(&[0x2A], &[&schemas])].concat();
    assert_eq!(to_protobuf_v3(&document), expected);
}

#[test]
fn the_extension_travels_as_yaml() {
    let document = v2_of(&[&shirts()]);
    let bytes = to_protobuf_v2(&document);
    let definition = named(all(&bytes, 9)[0], 1, "com.example.stable.v1.Shirt").unwrap();
    let any = named(definition, 31, "x-kubernetes-selectable-fields").unwrap();
    assert_eq!(all(any, 2), [b"- fieldPath: spec.color\n- fieldPath: spec.size\n"]);
    let kinds = named(definition, 31, "x-kubernetes-group-version-kind").unwrap();
    assert_eq!(all(kinds, 2), [b"- group: stable.example.com\n  kind: Shirt\n  version: v1\n"]);
}

#[test]
fn a_reader_finds_every_path_and_definition() {
    let v2_document = v2_of(&[&shirts()]);
    let (bytes, skipped) = encode(&v2::DOCUMENT, &v2_document);
    assert_eq!(skipped, []);
    let n_paths = v2_document["paths"].as_object().unwrap().len();
    assert_eq!(all(all(&bytes, 8)[0], 2).len(), n_paths);
    assert_eq!(all(all(&bytes, 9)[0], 1).len(), v2_document["definitions"].as_object().unwrap().len());

    let v3_document = v3_of(&[&shirts()], "v1");
    let (bytes, skipped) = encode(&v3::DOCUMENT, &v3_document);
    assert_eq!(skipped, []);
    assert_eq!(all(all(&bytes, 4)[0], 1).len(), v3_document["paths"].as_object().unwrap().len());
    let schemas = all(all(&bytes, 5)[0], 1)[0];
    assert_eq!(all(schemas, 1).len(), v3_document["components"]["schemas"].as_object().unwrap().len());
}

#[test]
fn what_has_no_place_is_reported() {
    let document = json!({"swagger": "2.0", "novelty": 1, "x-fine": 1, "definitions": {"A": {
        "oneOf": [], "properties": {"default": {"maxLength": "x"}}}}});
    let (_, skipped) = encode(&v2::DOCUMENT, &document);
    let row = |path: &str, reason| SkippedValue { path: path.to_owned(), reason };
    assert_eq!(
        skipped,
        [
            row("novelty", "the message has no field for this keyword"),
            row("definitions/A/oneOf", "the message has no field for this keyword"),
            row("definitions/A/properties/default/maxLength", "not a 64-bit integer"),
        ]
    );
}
