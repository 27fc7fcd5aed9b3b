//! Tests of the module: the document's form, the policies, and the queue before a file that is slow, broken or
//! replaced.

#![expect(clippy::disallowed_methods, reason = "a log is a file")]

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::{Just, Strategy, prop, prop_assert_eq, prop_oneof, proptest};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::event::{self, DECISION, EventUser, ObjectReference, VIEW};
use super::output::{AuditOutput as Destination, LogFile, Resume};
use super::writer::{AuditCounters, AuditMessage, AuditWriter};
use super::{Event, Log, Policy, RejectionKey, RequestClass, Stage};

/// Longer than any machine needs.
const SOON: Duration = Duration::from_secs(60);
/// How long a response waits in tests where it waits in vain.
const SHORT: Duration = Duration::from_millis(20);

fn event(id: &str) -> Event {
    Event {
        audit_id: id.to_owned(),
        stage: Stage::ResponseComplete,
        uri: "/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"
            .to_owned(),
        verb: "list".to_owned(),
        user: Some(EventUser {
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
fn failures_are_logged_without_the_common_members_of_a_status() {
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
    let subjects = [RequestClass::ViewRight, RequestClass::View, RequestClass::Other, RequestClass::Health];
    for (policy, takes) in [
        (Policy::None, [false, false, false, false]),
        (Policy::ViewRights, [true, false, false, false]),
        (Policy::Views, [true, true, false, false]),
        (Policy::All, [true, true, true, false]),
    ] {
        assert_eq!(subjects.map(|class| policy.contains(class)), takes, "{policy:?}");
    }
    assert_eq!(Policy::default(), Policy::ViewRights);
}

/// The behaviour of a slow or broken disk.
#[derive(Default)]
struct Disk {
    state: Mutex<DiskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DiskState {
    is_stalled: bool,
    /// What the next calls of `write` do; then each takes everything.
    steps: VecDeque<Step>,
    /// Whether each call of `write` fails that has no step.
    is_full: bool,
    written: Vec<u8>,
    /// Whether a task waits for it.
    is_used: bool,
}

/// What one call of `write` does.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Takes at most so many bytes.
    Takes(usize),
    Fails(io::ErrorKind),
}

#[derive(Clone, Default)]
struct Output(Arc<Disk>);

impl Destination for Output {
    fn prepare(&mut self, _is_torn: bool) -> io::Result<Resume> {
        Ok(Resume::Continue)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state.lock().unwrap();
        state.is_used = true;
        self.0.changed.notify_all();
        while state.is_stalled {
            state = self.0.changed.wait(state).unwrap();
        }
        let taken = match state.steps.pop_front() {
            Some(Step::Takes(most)) => most.min(bytes.len()),
            Some(Step::Fails(kind)) => return Err(kind.into()),
            None if state.is_full => return Err(io::ErrorKind::StorageFull.into()),
            None => bytes.len(),
        };
        state.written.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }
}

impl Output {
    fn set(&self, change: impl FnOnce(&mut DiskState)) {
        change(&mut self.0.state.lock().unwrap());
        self.0.changed.notify_all();
    }

    fn wait_until_used(&self) {
        let mut state = self.0.state.lock().unwrap();
        while !state.is_used {
            state = self.0.changed.wait(state).unwrap();
        }
    }

    fn text(&self) -> String {
        let state = self.0.state.lock().unwrap();
        String::from_utf8(state.written.clone()).unwrap()
    }

    fn ids(&self) -> Vec<String> {
        ids(&self.text())
    }
}

/// The ids of whole lines; any other line fails the test.
fn ids(text: &str) -> Vec<String> {
    let documents =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("torn: {line}")));
    documents.map(|document| document["auditID"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn events_are_written_in_their_order() {
    let output = Output::default();
    let log = Log::to(Box::new(output.clone()), Policy::All, 4).unwrap();
    let mut expected = Vec::new();
    for number in 0..100 {
        let id = format!("a-{number}");
        let place = log.reserve().await.unwrap();
        assert!(log.write(place, &event(&id)).await);
        expected.push(id);
    }
    log.finish().await;
    assert_eq!(output.ids(), expected);
    let counts = log.counts();
    assert_eq!((counts.written(), counts.dropped(), counts.failures(), counts.refused()), (100, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn rejections_of_one_caller_are_few_and_short_in_the_log() {
    const MANY: usize = 400;
    let output = Output::default();
    let log = Log::to(Box::new(output.clone()), Policy::All, 2 * MANY).unwrap();
    let long = "x".repeat(60_000);
    let rejected = |id: &str| {
        let text = || long.clone();
        let object = ObjectReference {
            resource: text(),
            namespace: text(),
            name: text(),
            api_group: text(),
            api_version: text(),
            subresource: text(),
        };
        let document = json!({ "message": long, "details": { "name": long, "causes": [{ "message": long }] } });
        Event {
            uri: text(),
            verb: text(),
            object: Some(object),
            source_addresses: (0..5_000).map(|number| format!("10.0.{}.{}", number / 250, number % 250)).collect(),
            status: Some(event::failure(document, 401)),
            annotations: BTreeMap::from([(VIEW, text())]),
            ..event(id)
        }
    };
    let one = |last: u8| RejectionKey::Address(IpAddr::from([10, 0, 0, last]));
    (0..MANY).for_each(|_| log.offer_rejected(rejected("of-the-flood"), one(1)));
    log.offer_rejected(rejected("of-another-address"), one(2));
    log.offer_rejected(rejected("of-a-user"), RejectionKey::User("alice".to_owned()));
    tokio::time::advance(Duration::from_secs(1)).await;
    (0..MANY).for_each(|_| log.offer_rejected(rejected("later"), one(1)));
    log.finish().await;
    let ids = output.ids();
    let count = |id: &str| ids.iter().filter(|found| *found == id).count();
    let counts = ["of-the-flood", "of-another-address", "of-a-user", "later"].map(count);
    assert_eq!(counts, [100, 1, 1, 10], "events of rejections");
    assert_eq!(log.counts().dropped(), 2 * MANY as u64 - 110, "the others are counted");
    assert!(output.text().contains(",\"10.0.19.249\"],"), "the address of the peer is the last one");
    let longest = output.text().lines().map(str::len).max().unwrap();
    assert!(longest < 16 << 10, "an event has {longest} bytes");
}

#[tokio::test]
async fn a_stalled_disk_rejects_requests_that_must_be_logged_and_drops_and_counts_the_rest() {
    let output = Output::default();
    output.set(|disk| disk.is_stalled = true);
    let log = Log::to(Box::new(output.clone()), Policy::All, 2).unwrap();
    log.offer(&event("written-first"));
    output.wait_until_used();
    let permit = log.reserve().await.unwrap();
    log.offer(&event("waits"));
    assert_eq!(log.counts().dropped(), 0);
    log.offer(&event("dropped"));
    assert_eq!(log.counts().dropped(), 1, "an event without a place is counted");
    // The clock runs to the end of the wait at once.
    tokio::time::pause();
    assert!(log.reserve().await.is_none(), "no place comes free while the disk does not write");
    tokio::time::resume();
    assert_eq!(log.counts().refused(), 1);
    // A place that was given stays.
    let last = event("has-a-place");
    let written = log.write(permit, &last);
    output.set(|disk| disk.is_stalled = false);
    assert!(written.await);
    log.finish().await;
    assert_eq!(output.ids(), ["written-first", "waits", "has-a-place"]);
    assert_eq!(log.counts().written(), 3);
    assert!(log.reserve().await.is_some(), "and then it goes on");
}

#[tokio::test]
async fn a_batch_is_retained_after_failed_writes_and_continued_at_its_byte() {
    let output = Output::default();
    let log = Log::to(Box::new(output.clone()), Policy::All, 8).unwrap();
    let steps = [
        Step::Takes(10),
        Step::Fails(io::ErrorKind::StorageFull),
        Step::Fails(io::ErrorKind::ReadOnlyFilesystem),
        Step::Takes(500),
        Step::Takes(0),
        Step::Fails(io::ErrorKind::BrokenPipe),
        Step::Fails(io::ErrorKind::Interrupted),
    ];
    // Taken before the first failure, after which there are no places.
    let place = log.reserve().await.unwrap();
    output.set(|disk| disk.steps = steps.into());
    log.offer(&event("first"));
    assert!(log.write(place, &event("second")).await, "a failure that ends in time rejects nothing");
    assert_eq!(output.ids(), ["first", "second"]);
    assert_eq!((log.counts().failures(), log.counts().written()), (4, 2));
    assert_eq!(log.counts().check(), Ok(()));
}

#[tokio::test]
async fn while_writes_fail_requests_are_rejected_and_readiness_says_so() {
    let output = Output::default();
    output.set(|disk| disk.is_full = true);
    let log = Log::to(Box::new(output.clone()), Policy::All, 8).unwrap().with_write_wait(SHORT);
    assert_eq!(log.counts().check(), Ok(()), "nothing is known yet");
    let place = log.reserve().await.unwrap();
    let early = log.reserve().await.unwrap();
    assert!(!log.write(place, &event("rejected")).await, "its event is not written");
    assert_eq!(log.counts().refused(), 1);
    // The request's own event, with its true result.
    log.offer(&event("rejection"));
    // The thread that writes can be later than the request, which waits for a short time only.
    let trouble = timeout(SOON, async {
        loop {
            match log.counts().check() {
                Err(trouble) => break trouble,
                Ok(()) => sleep(SHORT).await,
            }
        }
    });
    let trouble = trouble.await.unwrap();
    assert!(trouble.contains("audit log"), "{trouble}");
    assert!(log.reserve().await.is_none(), "the next one is rejected at once");
    assert_eq!(log.counts().refused(), 2);
    output.set(|disk| disk.is_full = false);
    let log = log.with_write_wait(SOON);
    assert!(log.write(early, &event("served")).await, "it recovers without help");
    assert_eq!(output.ids(), ["rejection", "served"], "what was rejected is not logged as served");
    assert_eq!(log.counts().check(), Ok(()));
    assert!(log.reserve().await.is_some());
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Whatever a destination does, every line is written once and whole.
    #[test]
    fn every_line_is_written_once_and_whole(
        lengths in prop::collection::vec((1usize..40, prop::bool::ANY), 1..12),
        steps in prop::collection::vec(prop_oneof![
            (0usize..30).prop_map(Step::Takes),
            prop_oneof![Just(io::ErrorKind::StorageFull), Just(io::ErrorKind::WouldBlock), Just(io::ErrorKind::Interrupted)]
                .prop_map(Step::Fails),
        ], 0..5),
    ) {
        let output = Output::default();
        output.set(|disk| disk.steps = steps.into());
        let (queue, waiting) = mpsc::channel(16);
        let mut expected = String::new();
        for (index, (length, is_withdrawn)) in lengths.into_iter().enumerate() {
            let line = format!("{index}{}\n", "x".repeat(length));
            let (written, is_written) = oneshot::channel();
            let is_withdrawn = is_withdrawn && index > 0;
            if !is_withdrawn {
                expected.push_str(&line);
            }
            let message = AuditMessage::Line { bytes: line.into_bytes(), written: is_withdrawn.then_some(written) };
            queue.try_send(message).unwrap();
            drop(is_written);
        }
        let (done, finished) = oneshot::channel();
        queue.try_send(AuditMessage::Finish(done)).unwrap();
        let writer = AuditWriter::new(Box::new(output.clone()), Arc::new(AuditCounters::default()));
        let thread = std::thread::spawn(move || writer.run(waiting));
        finished.blocking_recv().unwrap();
        drop(queue);
        thread.join().unwrap();
        let written = String::from_utf8(output.0.state.lock().unwrap().written.clone()).unwrap();
        prop_assert_eq!(written, expected);
    }
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

/// Waits until an offered event makes the log writable, or not.
async fn until_writable(log: &Log, is_writable: bool) {
    let changed = async {
        while log.counts().check().is_ok() != is_writable {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, changed).await.expect("the state of the log follows its file");
}

#[tokio::test]
async fn a_full_device_is_noticed_and_left_for_another_file_of_the_path() {
    let folder = Folder::new("full");
    let (path, file) = (folder.0.join("audit.log"), folder.0.join("file"));
    symlink("/dev/full", &path).unwrap();
    let log = Log::open(&path.display().to_string(), Policy::All).unwrap().with_write_wait(SHORT);
    let place = log.reserve().await.unwrap();
    assert!(!log.write(place, &event("rejected")).await);
    log.offer(&event("rejection"));
    until_writable(&log, false).await;
    assert!(log.reserve().await.is_none());
    fs::write(&file, "").unwrap();
    symlink(&file, folder.0.join("new")).unwrap();
    fs::rename(folder.0.join("new"), &path).unwrap();
    until_writable(&log, true).await;
    log.finish().await;
    assert_eq!(ids(&fs::read_to_string(&file).unwrap()), ["rejection"]);
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[tokio::test]
async fn a_pipe_whose_reader_is_missing_or_has_stopped_rejects_and_loses_nothing() {
    let folder = Folder::new("pipe");
    let path = folder.0.join("audit.pipe");
    fifo(&path);
    // Neither this nor a write waits for a reader.
    let log = Log::open(&path.display().to_string(), Policy::All).unwrap();
    log.offer(&event("no-reader"));
    until_writable(&log, false).await;
    let path_read = path.clone();
    let mut reader = tokio::task::spawn_blocking(move || fs::File::open(path_read)).await.unwrap().unwrap();
    until_writable(&log, true).await;
    // The reader stops: the pipe fills, and then nothing more is taken.
    let mut expected = vec!["no-reader".to_owned()];
    let log = log.with_write_wait(Duration::from_millis(200));
    for number in 0.. {
        let id = format!("a-{number}");
        let place = log.reserve().await.unwrap();
        if !log.write(place, &event(&id)).await {
            break;
        }
        expected.push(id);
        assert!(number < 10_000, "a pipe is bounded");
    }
    log.offer(&event("last"));
    expected.push("last".to_owned());
    let reading = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    log.finish().await;
    drop(log);
    let mut found = ids(&reading.await.unwrap());
    // The line whose write was in progress when its request was rejected may be there.
    if found.len() > expected.len() {
        found.remove(expected.len() - 1);
    }
    assert_eq!(found, expected);
}

#[test]
fn a_torn_line_goes_on_where_the_file_is_as_it_was_left() {
    let folder = Folder::new("torn");
    let path = folder.0.join("audit.log");
    let mut output = LogFile::open(&path).unwrap();
    assert_eq!(output.prepare(false).unwrap(), Resume::Continue);
    output.write(b"half of a li").unwrap();
    assert_eq!(output.prepare(true).unwrap(), Resume::Continue);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"of somebody else").unwrap();
    assert_eq!(output.prepare(true).unwrap(), Resume::RestartOnNewLine);
    assert_eq!(output.prepare(false).unwrap(), Resume::Continue, "a whole line is not repeated");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert_eq!(output.prepare(true).unwrap(), Resume::Restart);
    fs::rename(&path, folder.0.join("audit.log.1")).unwrap();
    assert_eq!(output.prepare(true).unwrap(), Resume::Restart);
    assert!(path.exists());
}

#[test]
fn a_file_that_cannot_be_opened_is_reported_with_its_option() {
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
