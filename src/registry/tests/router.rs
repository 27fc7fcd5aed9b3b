//! What watches find in their mailboxes, compared with a check of every watch against every change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use flate2::Crc;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{prop_assert_eq, proptest};

use crate::extract::FieldRef;
use crate::model::{FieldIndex, IndexedValues, Key, Record, Version, fnv1a};
use crate::query::{FieldTerm, Selection};
use crate::registry::deflated::Deflated;
use crate::registry::dispatched_event::{DispatchedEvent, LineForm};
use crate::registry::event_dispatcher::{EventDispatcher, MailboxContents, Subscription};
use crate::selector::Operator;
use crate::store::{Change, HistoryCursor, HistoryLimits, Snapshot, Store};
use crate::subscribe::transition;

/// A record with these values of fields.
fn record(key: &str, version: u64, values: &[&str]) -> Record {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let bytes = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
    let (metadata, digits) = (r#"{"metadata":"#.len() as u32, r#"{"metadata":{"resourceVersion":""#.len() as u32);
    Record {
        key: Key::new(namespace, name),
        version: Version::new(version),
        texts: IndexedValues::new([], (0..).map(FieldIndex).zip(values.iter().copied())),
        metadata_span: metadata..bytes.len() as u32 - 1,
        version_span: digits..bytes.len() as u32 - 3,
        uid_hash: fnv1a(key),
        bytes: Bytes::from(bytes),
    }
}

fn of_value(value: &str) -> Arc<Selection> {
    let term = FieldTerm::new(FieldRef::Field(FieldIndex(0)), Operator::equal_to(value));
    Arc::new(Selection { fields: vec![term], ..Selection::default() })
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Counter>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A watch that reads as the server's do.
struct Reader {
    subscription: Subscription,
    cursor: HistoryCursor,
    received: Vec<u64>,
    /// What it knows to be complete.
    seen: Version,
    histories: usize,
    woken: Arc<Counter>,
}

impl Reader {
    fn new(router: &Arc<EventDispatcher>, selection: Arc<Selection>, from: &Snapshot) -> Reader {
        Reader {
            subscription: router.subscribe(&selection, false),
            cursor: from.end(),
            received: Vec::new(),
            seen: from.version(),
            histories: 0,
            woken: Arc::default(),
        }
    }

    fn read(&mut self, newest: &Snapshot) {
        let mut receive = |change: &Change| {
            if transition(self.subscription.selection(), change).is_some() {
                self.received.push(change.version.number());
            }
        };
        match self.subscription.take() {
            MailboxContents::Overflowed => {
                self.histories += 1;
                newest.changes(self.cursor).unwrap().for_each(|change| receive(change));
                (self.cursor, self.seen) = (newest.end(), newest.version());
            }
            MailboxContents::Changes { changes, end, version } => {
                changes.iter().filter(|routed| routed.place >= self.cursor).for_each(|routed| receive(&routed.change));
                (self.cursor, self.seen) = (self.cursor.max(end), self.seen.max(version));
            }
        }
    }

    /// Sleeps until there is news; true when there was some already.
    fn sleep(&self) -> bool {
        let waker = Waker::from(self.woken.clone());
        let mut news = std::pin::pin!(self.subscription.changed());
        news.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
    }
}

fn put(store: &mut Store, name: &str, version: u64, value: &str) {
    store.apply(&record(&format!("a/{name}"), version, &[value]));
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize, usize),
    Delete(usize),
    Prove,
    Publish,
    Relist,
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5usize, 0..4usize).prop_map(|(name, value)| Step::Put(name, value)),
        2 => (0..5usize).prop_map(Step::Delete),
        1 => Just(Step::Prove),
        4 => Just(Step::Publish),
        1 => Just(Step::Relist),
        4 => (0..5usize).prop_map(Step::Read),
    ]
}

proptest! {
    #[test]
    fn every_watch_receives_what_it_would_receive_alone(steps in vec(step(), 1..300)) {
        const VALUES: [&str; 4] = ["red", "green", "blue", ""];
        let router = Arc::new(EventDispatcher::default());
        let mut store = Store::new(HistoryLimits::default());
        store.replace(&[], Version::new(1));
        let first = store.snapshot();
        router.route(&first);
        let mut readers: Vec<Reader> =
            VALUES.map(|value| Reader::new(&router, of_value(value), &first)).into_iter().collect();
        readers.push(Reader::new(&router, Arc::default(), &first));
        let (mut published, mut version) = (first.clone(), 1);
        for step in steps {
            version += 1;
            match step {
                Step::Put(name, value) => put(&mut store, &name.to_string(), version, VALUES[value]),
                Step::Delete(name) => {
                    store.delete(&Key::new("a", &name.to_string()), Version::new(version));
                }
                Step::Prove => store.advance_to(Version::new(version)),
                Step::Publish => {
                    published = store.snapshot();
                    router.route(&published);
                }
                Step::Relist => {
                    version += 5;
                    store.replace(&[record("a/0", version - 2, &["red"])], Version::new(version));
                }
                Step::Read(reader) => {
                    readers[reader].read(&published);
                    prop_assert_eq!(readers[reader].seen, published.version(), "it has seen all that is published");
                }
            }
        }
        router.route(&store.snapshot());
        let last = store.snapshot();
        for reader in &mut readers {
            reader.read(&last);
            let selection = reader.subscription.selection();
            let changes = last.changes(first.end()).unwrap();
            let alone: Vec<u64> = changes
                .filter(|change| transition(selection, change).is_some())
                .map(|change| change.version.number())
                .collect();
            prop_assert_eq!(&reader.received, &alone, "{:?}", selection);
        }
    }
}

#[test]
fn only_watches_that_a_change_concerns_are_woken() {
    let router = Arc::new(EventDispatcher::default());
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let first = store.snapshot();
    router.route(&first);
    let mut readers: Vec<Reader> =
        (0..1000).map(|number| Reader::new(&router, of_value(&format!("v{number}")), &first)).collect();
    for reader in &mut readers {
        assert!(reader.sleep(), "it begins with history");
        reader.read(&first);
        assert!(!reader.sleep());
    }
    let attentive = router.subscribe(&Selection::default(), true);
    for (version, value) in [(2, "v7"), (3, "v8"), (4, "none")] {
        put(&mut store, "x", version, value);
        router.route(&store.snapshot());
    }
    let woken = |reader: &Reader| reader.woken.0.load(Ordering::Relaxed);
    for (number, reader) in readers.iter().enumerate() {
        assert_eq!(woken(reader), usize::from(number == 7 || number == 8), "watch {number}");
    }
    let last = store.snapshot();
    for (number, expected) in [(7, vec![2, 3]), (8, vec![3, 4]), (9, vec![])] {
        readers[number].read(&last);
        assert_eq!(readers[number].received, expected, "watch {number}");
        assert_eq!(readers[number].seen, Version::new(4), "watch {number} knows how far that is");
        assert_eq!(readers[number].histories, 1, "watch {number} did not have to read history");
    }
    let news = |subscription: &Subscription| {
        let mut news = std::pin::pin!(subscription.changed());
        news.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    assert!(news(&attentive) && !news(&attentive));
    store.advance_to(Version::new(9));
    router.route(&store.snapshot());
    assert!(news(&attentive), "a progress notification without a change");
    assert_eq!(woken(&readers[9]), 0);
    router.interrupt();
    assert!(readers.iter().all(|reader| woken(reader) >= 1), "another state concerns every watch");
}

#[test]
fn a_watch_that_does_not_read_is_sent_to_history_and_holds_nothing() {
    let router = Arc::new(EventDispatcher::default());
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let first = store.snapshot();
    router.route(&first);
    let mut reader = Reader::new(&router, of_value("v"), &first);
    reader.read(&first);
    for version in 2..66 {
        put(&mut store, "x", version, "v");
        router.route(&store.snapshot());
    }
    reader.read(&store.snapshot());
    assert_eq!((reader.histories, reader.received.len()), (1, 64), "as many as a mailbox keeps");
    for version in 66..200 {
        put(&mut store, "x", version, "v");
        router.route(&store.snapshot());
    }
    let last = store.snapshot();
    reader.read(&last);
    assert_eq!((reader.histories, reader.received.len()), (2, 198), "more: from history");
    let is_sorted = reader.received.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(is_sorted, "{:?}", reader.received);
}

#[test]
fn a_line_is_made_once() {
    let router = Arc::new(EventDispatcher::default());
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    router.route(&store.snapshot());
    let subscriptions =
        [router.subscribe(&Selection::default(), false), router.subscribe(&Selection::default(), false)];
    subscriptions.iter().for_each(|subscription| assert!(matches!(subscription.take(), MailboxContents::Overflowed)));
    put(&mut store, "x", 2, "v");
    router.route(&store.snapshot());
    let mut made = 0;
    for subscription in &subscriptions {
        let MailboxContents::Changes { changes, .. } = subscription.take() else { panic!("a change") };
        let line = changes[0].line(3, || {
            made += 1;
            "line".into()
        });
        assert_eq!(line, "line");
    }
    assert_eq!(made, 1);
}

/// One change of an object, as a subscription receives it.
fn one_change() -> (Arc<EventDispatcher>, Vec<Arc<DispatchedEvent>>) {
    let router = Arc::new(EventDispatcher::default());
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    router.route(&store.snapshot());
    let subscription = router.subscribe(&Selection::default(), false);
    assert!(matches!(subscription.take(), MailboxContents::Overflowed));
    put(&mut store, "x", 2, "v");
    router.route(&store.snapshot());
    let MailboxContents::Changes { changes, .. } = subscription.take() else { panic!("a change") };
    (router, changes)
}

#[test]
fn a_line_that_takes_long_keeps_no_other_form_waiting() {
    let (router, changes) = one_change();
    let unwritten = router.held_bytes();
    let form = |second| LineForm { number: 20, prune: None, is_quiet: false, second: Some(second) };
    let other = LineForm { number: 21, prune: None, is_quiet: false, second: None };
    let (line, made) = (Bytes::from("a line"), AtomicUsize::new(0));
    let make = || {
        made.fetch_add(1, Ordering::Relaxed);
        Some(line.clone())
    };
    let (send, done) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        changes[0].made(&form(1), || {
            scope.spawn(|| {
                changes[0].made(&other, make);
                changes[0].made(&form(2), make);
                send.send(()).unwrap();
            });
            done.recv_timeout(Duration::from_secs(60)).expect("the other forms are made meanwhile");
            Some("a line of an earlier second".into())
        });
    });
    for form in [&other, &form(2)] {
        assert_eq!(changes[0].made(form, make), Some(line.clone()));
    }
    assert_eq!(made.load(Ordering::Relaxed), 2, "each is made once");
    assert_eq!(router.held_bytes(), unwritten + 2 * (line.len() + 192), "only what is kept counts");
    drop(changes);
    assert_eq!(router.held_bytes(), 0);
}

/// A line that is alive as long as something has it.
struct Alive(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Alive {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// Each watch can have a form of its own, long ones and empty ones, and compress it.
#[test]
fn forms_that_clients_choose_are_counted_and_bounded() {
    for length in [1 << 20, 0, 1_000] {
        let (router, changes) = one_change();
        let alive = Arc::new(AtomicUsize::new(0));
        for number in 0..2_000 {
            let form = LineForm { number, prune: None, is_quiet: true, second: None };
            let make = || {
                alive.fetch_add(length, Ordering::Relaxed);
                Some(Bytes::from_owner(Alive(vec![0; length], alive.clone())))
            };
            let line = changes[0].made(&form, make).unwrap();
            changes[0].deflated(&line, || Deflated { blocks: Bytes::from_static(b"short"), sum: Crc::new() });
        }
        let (held, in_memory) = (router.held_bytes(), alive.load(Ordering::Relaxed));
        assert!(held <= 16 << 20 && in_memory <= held, "{length}: {in_memory} bytes of lines, {held} are counted");
        let fits = if length > 100_000 { 10 } else { 256 };
        assert!(held >= fits * (length + 192), "{length}: {held} are counted");
        assert!(held <= 256 * (length + 1_000), "{length}: {held} are counted");
        drop(changes);
        assert_eq!((router.held_bytes(), alive.load(Ordering::Relaxed)), (0, 0));
    }
}

#[test]
fn changes_that_lie_unread_in_many_mailboxes_are_bounded_together() {
    let router = Arc::new(EventDispatcher::default());
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let first = store.snapshot();
    router.route(&first);
    let mut readers: Vec<Reader> =
        (0..1000).map(|number| Reader::new(&router, of_value(&format!("v{number}")), &first)).collect();
    readers.iter_mut().for_each(|reader| reader.read(&first));
    let long = "x".repeat(30_000);
    for number in 0..1000 {
        put(&mut store, &format!("{long}{number}"), 2 + number, &format!("v{number}"));
        router.route(&store.snapshot());
        assert!(router.held_bytes() < 17 << 20, "{} after {number} changes of 30 KB", router.held_bytes());
    }
    assert!(router.held_bytes() > 0);
    let last = store.snapshot();
    for (number, reader) in readers.iter_mut().enumerate() {
        reader.read(&last);
        assert_eq!(reader.received, [2 + number as u64], "nothing is lost");
    }
    assert_eq!(router.held_bytes(), 0, "what was read is not held");
}

#[test]
fn equal_selections_are_held_once_and_as_long_as_one_needs_them() {
    let router = Arc::new(EventDispatcher::default());
    let empty = format!("{router:?}");
    let first = router.subscribe(&of_value("v"), false);
    let address = std::ptr::from_ref(first.selection());
    let second = router.subscribe(&of_value("v"), false);
    let other = router.subscribe(&of_value("w"), false);
    assert_eq!(std::ptr::from_ref(second.selection()), address);
    assert_ne!(std::ptr::from_ref(other.selection()), address);
    drop(first);
    let third = router.subscribe(&of_value("v"), false);
    assert_eq!(std::ptr::from_ref(third.selection()), address, "another subscription still has it");
    drop((second, third, other));
    let table = format!("{router:?}");
    let selections = |text: &str| text.split("selections: ").nth(1).map(|rest| rest[..2].to_owned());
    assert_eq!(selections(&table), selections(&empty), "{table}");
}
