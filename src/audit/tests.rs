//! Tests of the room: the document's form, the policies, and the queue before a file that is slow, broken or replaced.

#![expect(clippy::disallowed_methods, reason = "a log is a file")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::event::{self, DECISION, ObjectReference, User, VIEW};
use super::{Event, Log, Policy, Stage, Subject};

fn event(id: &str) -> Event {
    Event {
        audit_id: id.to_owned(),
        stage: Stage::ResponseComplete,
        uri: "/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"
            .to_owned(),
        verb: "list".to_owned(),
        user: Some(User {
            username: "system:serviceaccount:team:agent".to_owned(),
            uid: "u-1".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            extra: BTreeMap::from([("authentication.kubernetes.io/node-name".to_owned(), vec!["n1".to_owned()])]),
        }),
        source_addresses: vec!["10.0.0.1".to_owned()],
        user_agent: "agent/1.0 \"quoted\"".to_owned(),
        object: Some(ObjectReference {
            resource: "pods".to_owned(),
            api_version: "v1".to_owned(),
            ..ObjectReference::default()
        }),
        status: Some(event::status(200)),
        received: "2026-03-01T09:05:03Z".parse().unwrap(),
        reached: "2026-03-01T09:05:03.25Z".parse().unwrap(),
        annotations: BTreeMap::from([(DECISION, "allow".to_owned()), (VIEW, "blue".to_owned())]),
    }
}

#[test]
fn an_event_is_one_line_in_upstreams_form_and_order() {
    let line = String::from_utf8(event("a-1").line()).unwrap();
    let expected = concat!(
        r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a-1","stage":"ResponseComplete","#,
        r#""requestURI":"/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy/api/v1/pods?fieldSelector=spec.nodeName%3Dn1","#,
        r#""verb":"list","user":{"username":"system:serviceaccount:team:agent","uid":"u-1","groups":["system:authenticated"],"#,
        r#""extra":{"authentication.kubernetes.io/node-name":["n1"]}},"sourceIPs":["10.0.0.1"],"userAgent":"agent/1.0 \"quoted\"","#,
        r#""objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":200,"metadata":{}},"#,
        r#""requestReceivedTimestamp":"2026-03-01T09:05:03.000000Z","stageTimestamp":"2026-03-01T09:05:03.250000Z","#,
        r#""annotations":{"authorization.k8s.io/decision":"allow","view.fieldcache.dev/view":"blue"}}"#,
        "\n"
    );
    assert_eq!(line, expected);
    // Line breaks in what a client says of itself are no lines.
    let broken = Event { user_agent: "a\nb\u{2028}".to_owned(), ..event("a\n1") };
    let line = String::from_utf8(broken.line()).unwrap();
    assert_eq!(line.matches('\n').count(), 1, "{line}");
}

#[test]
fn what_is_not_known_is_left_out() {
    let bare = Event {
        user: None,
        source_addresses: Vec::new(),
        user_agent: String::new(),
        object: None,
        status: None,
        annotations: BTreeMap::new(),
        ..event("a-1")
    };
    let document: Value = serde_json::from_slice(&bare.line()).unwrap();
    for member in ["sourceIPs", "userAgent", "objectRef", "responseStatus", "annotations"] {
        assert_eq!(document.get(member), None, "{member}: {document}");
    }
    // Upstream's type has no way to leave it out.
    assert_eq!(document["user"], json!({}));
}

#[test]
fn failures_are_told_without_what_every_status_has() {
    let document = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404});
    let expected = json!({"metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404});
    assert_eq!(event::failure(document, 404), expected);
    assert_eq!(event::failure(Value::Null, 404), json!({"metadata": {}, "code": 404}), "no document");
}

#[test]
fn long_user_agents_are_cut_between_letters() {
    assert_eq!(event::user_agent("kubectl/v1.36"), "kubectl/v1.36");
    let long = event::user_agent(&"é".repeat(1000));
    assert_eq!(long, format!("{}...TRUNCATED", "é".repeat(512)));
    let odd = event::user_agent(&format!("x{}", "é".repeat(1000)));
    assert_eq!(odd, format!("x{}...TRUNCATED", "é".repeat(511)));
}

#[test]
fn policies_take_what_they_say() {
    let subjects = [Subject::ViewRight, Subject::View, Subject::Other, Subject::Health];
    for (policy, takes) in [
        (Policy::None, [false, false, false, false]),
        (Policy::ViewRights, [true, false, false, false]),
        (Policy::Views, [true, true, false, false]),
        (Policy::All, [true, true, true, false]),
    ] {
        assert_eq!(subjects.map(|subject| policy.takes(subject)), takes, "{policy:?}");
    }
    assert_eq!(Policy::default(), Policy::ViewRights);
}

/// What a slow or broken disk is told to do.
#[derive(Default)]
struct Disk {
    state: Mutex<DiskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DiskState {
    is_stalled: bool,
    /// How many calls of `write` fail from now on.
    failures: usize,
    /// The most bytes that the next failing call takes before.
    takes: usize,
    written: Vec<u8>,
    /// Whether somebody waits for it.
    is_asked: bool,
}

#[derive(Clone, Default)]
struct Output(Arc<Disk>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state.lock().unwrap();
        state.is_asked = true;
        self.0.changed.notify_all();
        while state.is_stalled {
            state = self.0.changed.wait(state).unwrap();
        }
        if state.takes > 0 {
            let taken = state.takes.min(bytes.len());
            state.takes = 0;
            state.written.extend_from_slice(&bytes[..taken]);
            return Ok(taken);
        }
        if state.failures > 0 {
            state.failures -= 1;
            return Err(io::Error::other("no space left"));
        }
        state.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    fn set(&self, change: impl FnOnce(&mut DiskState)) {
        change(&mut self.0.state.lock().unwrap());
        self.0.changed.notify_all();
    }

    fn wait_until_asked(&self) {
        let mut state = self.0.state.lock().unwrap();
        while !state.is_asked {
            state = self.0.changed.wait(state).unwrap();
        }
    }

    fn ids(&self) -> Vec<String> {
        let state = self.0.state.lock().unwrap();
        ids(&String::from_utf8(state.written.clone()).unwrap())
    }
}

fn ids(text: &str) -> Vec<String> {
    let documents = text.lines().filter(|line| !line.is_empty()).map(serde_json::from_str::<Value>);
    documents.filter_map(|document| Some(document.ok()?["auditID"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn events_are_written_in_their_order() {
    let output = Output::default();
    let log = Log::to(Box::new(output.clone()), Policy::All, 4).unwrap();
    let mut expected = Vec::new();
    for number in 0..100 {
        let id = format!("a-{number}");
        log.place().await.unwrap().put(&event(&id));
        expected.push(id);
    }
    log.finish().await;
    assert_eq!(output.ids(), expected);
    let counts = log.counts();
    assert_eq!((counts.written(), counts.dropped(), counts.failed(), counts.refused()), (100, 0, 0, 0));
}

#[tokio::test]
async fn a_stalled_disk_refuses_who_must_be_told_of_and_drops_and_counts_the_rest() {
    let output = Output::default();
    output.set(|disk| disk.is_stalled = true);
    let log = Log::to(Box::new(output.clone()), Policy::All, 2).unwrap();
    log.place().await.unwrap().put(&event("written-first"));
    output.wait_until_asked();
    let held = log.place().await.unwrap();
    log.offer(&event("waits"));
    assert_eq!(log.counts().dropped(), 0);
    log.offer(&event("dropped"));
    assert_eq!(log.counts().dropped(), 1, "an event without a place is counted");
    // The clock runs to the end of everybody's patience at once.
    tokio::time::pause();
    assert!(log.place().await.is_none(), "no place comes free while the disk stands still");
    tokio::time::resume();
    assert_eq!(log.counts().refused(), 1);
    // A place that was given is kept.
    held.put(&event("has-a-place"));
    output.set(|disk| disk.is_stalled = false);
    log.finish().await;
    assert_eq!(output.ids(), ["written-first", "waits", "has-a-place"]);
    assert_eq!(log.counts().written(), 3);
    assert!(log.place().await.is_some(), "and then it goes on");
}

#[tokio::test]
async fn what_cannot_be_written_is_counted_and_the_next_is_a_line_of_its_own() {
    let output = Output::default();
    let log = Log::to(Box::new(output.clone()), Policy::All, 8).unwrap();
    output.set(|disk| (disk.takes, disk.failures) = (10, 1));
    log.offer(&event("torn"));
    log.finish().await;
    log.offer(&event("whole"));
    log.finish().await;
    assert_eq!(output.ids(), ["whole"]);
    assert_eq!((log.counts().failed(), log.counts().written()), (1, 1));
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fieldcache-audit-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_file_is_appended_to_and_followed_by_its_name() {
    let folder = Folder::new("followed");
    let (path, old) = (folder.0.join("audit.log"), folder.0.join("audit.log.1"));
    fs::write(&path, event("before").line()).unwrap();
    let log = Log::open(&path.display().to_string(), Policy::All).unwrap();
    log.offer(&event("first"));
    log.finish().await;
    fs::rename(&path, &old).unwrap();
    log.offer(&event("second"));
    log.finish().await;
    assert_eq!(ids(&fs::read_to_string(&old).unwrap()), ["before", "first"]);
    assert_eq!(ids(&fs::read_to_string(&path).unwrap()), ["second"]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "it names users");
}

#[test]
fn a_file_that_cannot_be_opened_is_told_with_its_option() {
    let error = Log::open("/nowhere/at/all/audit.log", Policy::All).unwrap_err().to_string();
    assert!(error.contains("--audit-log-path") && error.contains("/nowhere/at/all/audit.log"), "{error}");
}

#[test]
fn times_have_six_digits() {
    let at = |text: &str| {
        let event = Event { received: text.parse::<Timestamp>().unwrap(), ..event("a") };
        serde_json::from_slice::<Value>(&event.line()).unwrap()["requestReceivedTimestamp"].clone()
    };
    assert_eq!(at("2026-01-01T00:00:00Z"), "2026-01-01T00:00:00.000000Z");
    assert_eq!(at("2026-01-01T00:00:00.123456789Z"), "2026-01-01T00:00:00.123456Z");
}
