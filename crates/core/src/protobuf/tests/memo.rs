//! Neighbours share an encoder; the encoding of each must equal that of a separate encoder.

use proptest::prelude::*;

use super::written;
use crate::protobuf::memo::{FieldPosition, Known, Memo};
use crate::protobuf::{Encoder, MessageTable};

/// Values of fields in brackets; neighbours choose among few of them.
const TOLERATIONS: [&str; 4] = [
    "[]",
    r#"[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]"#,
    r#"[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"a"}]"#,
    r#"[ {"key":"\u00e4\"b","operator":"Exists","tolerationSeconds":-1 } , null ]"#,
];
const PROBES: [&str; 4] = [
    r#"{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"periodSeconds":10}"#,
    r#"{"httpGet":{"path":"/healthz","port":"named","scheme":"HTTP"},"periodSeconds":10}"#,
    r#"{"exec":{"command":["cat","/tmp/healthy","}"]},"failureThreshold":-3}"#,
    r#"{"httpGet":{"httpHeaders":[{"name":"a","value":"b"},{"name":"c","value":"d"}],"port":1}}"#,
];
const LIMITS: [&str; 3] = [
    r#"{"limits":{"memory":"100Mi","cpu":"0.1"},"requests":{"cpu":"100m"}}"#,
    r#"{"limits":{"cpu":"0.1","memory":"100Mi"},"requests":{"cpu":"100m"}}"#,
    "{}",
];

fn container(probe: usize, liveness: usize, limits: usize) -> String {
    let (probe, liveness, limits) = (PROBES[probe], PROBES[liveness], LIMITS[limits]);
    format!(r#"{{"name":"c","readinessProbe":{probe},"livenessProbe":{liveness},"resources":{limits}}}"#)
}

fn pods() -> impl Strategy<Value = Vec<String>> {
    let containers = prop::collection::vec((0..4usize, 0..4usize, 0..3usize), 0..4);
    let pod = (containers, 0..4usize, 0..3usize).prop_map(|(containers, tolerations, labels)| {
        let containers: Vec<String> = containers.into_iter().map(|(a, b, c)| container(a, b, c)).collect();
        let (containers, tolerations) = (containers.join(","), TOLERATIONS[tolerations]);
        let labels = ["{}", r#"{"app":"a-name-that-is-long","b":""}"#, r#"{"b":"","app":"a-name-that-is-long"}"#][labels];
        format!(
            r#"{{"metadata":{{"labels":{labels},"annotations":{labels}}},"spec":{{"tolerations":{tolerations},"containers":[{containers}]}}}}"#
        )
    });
    prop::collection::vec(pod, 1..24)
}

proptest! {
    #[test]
    fn neighbours_are_written_as_if_alone(pods in pods()) {
        let kind = MessageTable::for_minor(36).unwrap().kind("v1", "Pod").unwrap();
        let mut encoder = Encoder::default();
        for pod in &pods {
            let mut out = Vec::new();
            let message = encoder.read(kind, pod.as_bytes()).unwrap();
            message.write(&mut out);
            prop_assert_eq!(message.length(), out.len());
            prop_assert_eq!(out, written("v1", "Pod", pod).unwrap(), "{}", pod);
        }
    }
}

/// The same text is another thing in another field, and in another version of Kubernetes.
#[test]
fn only_the_same_field_of_the_same_version_is_known() {
    let position = FieldPosition { message: 1, field: 2, item: 3 };
    let json = br#"{"a text":"that is long enough"}"#;
    let mut memo = Memo::default();
    memo.begin(36);
    assert!(matches!(memo.find(position, json), Known::Nothing), "the first object has no neighbour");
    memo.begin(36);
    let Known::New(place) = memo.find(position, json) else { panic!("the text is new") };
    memo.insert(place, position, json);
    let Known::Seen(place) = memo.find(position, json) else { panic!("the text was kept") };
    memo.encode(place, position, json, |_, out| out.extend_from_slice(b"bytes"));
    let Known::Encoded { entry, json: length, length: 5 } = memo.find(position, json) else { panic!("it was encoded") };
    assert_eq!((length, memo.encoded(entry)), (json.len(), &b"bytes"[..]));
    // All fields that could share its place: the memo has none of them, and none takes the place while this object
    // refers to it.
    for message in 0..300 {
        let other = FieldPosition { message, ..position };
        let known = memo.find(other, json);
        assert!(message == 1 || matches!(known, Known::New(free) if free != entry) || matches!(known, Known::Nothing));
    }
    memo.begin(35);
    assert!(!matches!(memo.find(position, json), Known::Encoded { .. }), "another version");
}

#[test]
fn texts_that_never_come_again_are_bounded() {
    let kind = MessageTable::for_minor(36).unwrap().kind("v1", "Pod").unwrap();
    let mut encoder = Encoder::default();
    for number in 0..2_000 {
        // Each text comes twice, so that it is encoded too.
        let text = format!("{:01$}", number / 2, 1_000 + number % 900);
        let volume = |item: usize| format!(r#"{{"name":"v","emptyDir":{{"medium":"{text}{item}"}}}}"#);
        let volumes: Vec<String> = (0..100).map(volume).collect();
        let pod = format!(r#"{{"spec":{{"volumes":[{}]}}}}"#, volumes.join(","));
        encoder.read(kind, pod.as_bytes()).unwrap();
        assert!(
            encoder.memo.held_bytes() <= Memo::MOST_HELD + 8 * Memo::LONGEST,
            "object {number}: {}",
            encoder.memo.held_bytes()
        );
    }
}
