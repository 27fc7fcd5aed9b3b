//! The table of every minor version.

use std::collections::HashSet;

use crate::protobuf::table::{Mode, NEWEST, OLDEST, Value};
use crate::protobuf::{MessageTable, NoTable};

#[test]
fn every_minor_version_has_a_table() {
    for minor in OLDEST..=NEWEST {
        let table = MessageTable::for_minor(minor).unwrap();
        assert!(table.kinds().count() > 300, "1.{minor} has {} kinds", table.kinds().count());
        assert!(table.partial().is_some() && table.list_meta().is_some(), "1.{minor}");
        for kind in ["Pod", "PodList", "Status", "APIVersions", "APIGroupList", "APIResourceList"] {
            assert!(table.kind("v1", kind).is_some(), "1.{minor} has no {kind}");
        }
    }
    let head = MessageTable::text().lines().next();
    assert_eq!(head, Some(&*format!("minors {OLDEST}-{NEWEST}")));
    assert_eq!(MessageTable::for_minor(NEWEST + 1).err(), Some(NoTable::UnknownMinor(NEWEST + 1)));
    assert_eq!(MessageTable::for_minor(OLDEST - 1).err(), Some(NoTable::UnknownMinor(OLDEST - 1)));
}

/// Lists are written around their items without looking at the table.
#[test]
fn lists_have_their_metadata_first_and_their_items_second() {
    for minor in OLDEST..=NEWEST {
        let table = MessageTable::for_minor(minor).unwrap();
        let lists: Vec<_> = table.kinds().filter(|(_, kind)| kind.ends_with("List")).collect();
        assert!(lists.len() > 80, "1.{minor} has {} lists", lists.len());
        for (version, kind) in lists {
            if matches!((version, kind), ("v1", "APIGroupList" | "APIResourceList")) {
                continue;
            }
            let message = &table.messages[table.kind(version, kind).unwrap().message as usize];
            let number = |name: &str| message.fields[message.find(name.as_bytes()).unwrap()].tag.as_slice().to_vec();
            let expected = if version == "meta.k8s.io/v1beta1" { (0x12, 0x0a) } else { (0x0a, 0x12) };
            assert_eq!((number("metadata"), number("items")), (vec![expected.0], vec![expected.1]), "{version} {kind}");
        }
    }
}

#[test]
fn every_name_is_found_and_no_other() {
    let table = MessageTable::for_minor(NEWEST).unwrap();
    for message in &table.messages {
        let mut seen = HashSet::new();
        for (place, field) in message.fields.iter().enumerate().filter(|(_, field)| !field.name.is_empty()) {
            assert!(seen.insert(&field.name), "{} is there twice", field.name);
            assert_eq!(message.find(field.name.as_bytes()), Some(place), "{}", field.name);
        }
        for name in ["", "-", "x", "metadat", "metadataa", "Metadata"] {
            assert_eq!(message.find(name.as_bytes()), None, "{name}");
        }
    }
}

/// A field of an inner message follows the field that opens the message, and counts in the message's length.
#[test]
fn inner_messages_are_parts() {
    let table = MessageTable::for_minor(36).unwrap();
    let pod = &table.messages[table.kind("v1", "Pod").unwrap().message as usize];
    let Value::Message(spec) = pod.fields[pod.find(b"spec").unwrap()].value else { panic!("a spec is a message") };
    let spec = &table.messages[spec as usize];
    let Value::Message(volume) = spec.fields[spec.find(b"volumes").unwrap()].value else { panic!("volumes too") };
    let volume = &table.messages[volume as usize];
    let source = volume.find(b"configMap").unwrap();
    assert_eq!((volume.parts.len(), volume.fields[source].part), (2, 1));
    let opens = volume.fields.iter().position(|field| field.mode == Mode::Opens(1)).unwrap();
    assert!(opens < source, "the inner message opens before its fields");
}

#[test]
fn unreadable_tables_are_rejected_with_the_line() {
    let of = |text: &str| MessageTable::read(text, 36).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(of("minors 32-37\nkind v1 A x.A"), "line 2 of the table of messages: there is no message x.A");
    assert_eq!(of("message x.A shape"), "line 1 of the table of messages: an unknown form");
    assert_eq!(of("message x.A object\none a one bool"), "line 2 of the table of messages: a bad number of a field");
    assert_eq!(of("message x.A object\n1 a two bool"), "line 2 of the table of messages: an unknown mode");
    assert_eq!(of("message x.A object\n1 a one x.A"), "line 1 of the table of messages: a message that holds itself");
    assert_eq!(
        of("message x.A object\n1 - inline x.A"),
        "line 1 of the table of messages: a message that holds itself"
    );
    assert_eq!(of("message x.A object @x"), "line 1 of the table of messages: a bad minor version");
    assert!(of("minors 32-35").contains("1.36 are not known"));
}
