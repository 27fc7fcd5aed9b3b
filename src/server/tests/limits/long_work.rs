//! Work on long objects: it leaves the threads of the runtime to others, and every way to a long object waits for its turn.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::{get_in, user};
use crate::crd::PrinterColumn;
use crate::flow_control::long_work::{LONG, VERY_LONG, may_read, run_usual, wait_to_read};
use crate::flow_control::seats::{Seats, Worker};
use crate::registry::Resource;
use crate::server::tests::{Fixture, SHIRTS, catalog};

/// A test that fails ends after this, instead of never.
const PATIENCE: Duration = Duration::from_secs(20);

/// Blocks threads until it is opened. A thread gives up after [`PATIENCE`], so that a test fails instead of waiting for ever.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// Threads that are blocked now, and at most so far.
    blocked: AtomicUsize,
    most: AtomicUsize,
    has_given_up: AtomicBool,
}

impl Gate {
    fn pass(&self) {
        self.most.fetch_max(self.blocked.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let open = self.is_open.lock().unwrap();
        let (_open, waited) = self.opened.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap();
        self.has_given_up.fetch_or(waited.timed_out(), Ordering::SeqCst);
        self.blocked.fetch_sub(1, Ordering::SeqCst);
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Starts the work of this many users on an object of so many bytes each. The work waits at the gate.
fn start_heavy(users: usize, bytes: usize, seats: &Arc<Seats>, gate: &Arc<Gate>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for number in 0..users {
        let (seats, gate) = (seats.clone(), gate.clone());
        tasks.spawn(async move {
            let mut worker = seats.worker(&user(&format!("heavy-{number}")));
            worker.arrive().await.unwrap();
            let work = async {
                wait_to_read(bytes).await;
                gate.pass();
            };
            worker.work_through(work).await;
        });
    }
    tasks
}

#[test]
fn long_work_of_many_users_leaves_the_threads_to_others() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (seats, gate) = (Arc::new(Seats::new(32)), Arc::new(Gate::default()));
    let permits = available_parallelism().unwrap().get();
    let (is_served, most) = runtime.block_on(async {
        let mut tasks = start_heavy(permits + 8, LONG + 1, &seats, &gate);
        while gate.blocked.load(Ordering::SeqCst) < permits.min(2) {
            yield_now().await;
        }
        let mut quiet = JoinSet::new();
        quiet.spawn(async move {
            let mut worker = seats.worker(&user("quiet"));
            for _ in 0..100 {
                poll_fn(|context| worker.poll_turn(context)).await;
                worker.work(|| ());
            }
        });
        quiet.join_next().await.unwrap().unwrap();
        let is_served = !gate.has_given_up.load(Ordering::SeqCst);
        gate.open();
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        (is_served, gate.most.load(Ordering::SeqCst))
    });
    assert!(is_served, "a hundred turns of another user wait for long work");
    assert!(most <= permits, "{most} pieces of long work at a time, of {permits} permits");
}

#[test]
fn very_long_work_leaves_permits_for_long_work() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (seats, gate) = (Arc::new(Seats::new(32)), Arc::new(Gate::default()));
    let permits = available_parallelism().unwrap().get().div_ceil(2);
    let (is_served, most) = runtime.block_on(async {
        let mut tasks = start_heavy(permits + 8, VERY_LONG + 1, &seats, &gate);
        while gate.blocked.load(Ordering::SeqCst) < permits {
            yield_now().await;
        }
        // Together as much as the work of one of the others, and more.
        for _ in 0..20 {
            let mut worker = seats.worker(&user("reader"));
            worker.arrive().await.unwrap();
            worker.work_through(wait_to_read(VERY_LONG)).await;
        }
        let is_served = !gate.has_given_up.load(Ordering::SeqCst);
        gate.open();
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        (is_served, gate.most.load(Ordering::SeqCst))
    });
    assert!(is_served, "20 pieces of long work of one user wait for very long work of others");
    assert!(most <= permits, "{most} pieces of very long work at a time, of {permits} permits");
}

/// Whether the work of a turn may read a long object.
fn reads_long(worker: &mut Worker) -> bool {
    worker.work(|| may_read(LONG + 1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_is_not_used_goes_to_the_next_user() {
    let seats = Arc::new(Seats::new(32));
    let mut idle = Vec::new();
    for number in 0..2 * available_parallelism().unwrap().get() {
        let mut worker = seats.worker(&user(&format!("idle-{number}")));
        worker.arrive().await.unwrap();
        assert!(!reads_long(&mut worker), "the first turn is a usual one");
        // It asks for a permit once, as a stream whose window its client has closed does.
        poll_fn(|context| Poll::Ready(worker.poll_turn(context).is_ready())).await;
        idle.push(worker);
    }
    let mut next = seats.worker(&user("next"));
    next.arrive().await.unwrap();
    assert!(!reads_long(&mut next));
    let turn = timeout(PATIENCE, poll_fn(|context| next.poll_turn(context))).await;
    turn.expect("permits of workers that do not come must be given to others");
    assert!(reads_long(&mut next));
    assert!(!reads_long(&mut next), "the turn after a long one is a usual one");
    for mut worker in idle {
        timeout(PATIENCE, poll_fn(|context| worker.poll_turn(context)))
            .await
            .expect("a late worker must get another permit");
        assert!(reads_long(&mut worker));
    }
}

#[tokio::test]
async fn a_long_turn_reads_no_longer_object_than_it_was_granted_for() {
    let seats = Arc::new(Seats::new(32));
    let mut worker = seats.worker(&user("reader"));
    worker.arrive().await.unwrap();
    assert!(!reads_long(&mut worker), "the first turn is a usual one");
    assert_eq!(worker.long_bytes(), Some(LONG + 1));
    poll_fn(|context| worker.poll_turn(context)).await;
    let read = worker.work(|| [may_read(LONG + 1), may_read(LONG), may_read(40 * LONG)]);
    assert_eq!(read, [true, true, false]);
    assert_eq!(worker.long_bytes(), Some(40 * LONG), "the next turn is for the longer object");
    poll_fn(|context| worker.poll_turn(context)).await;
    assert!(worker.work(|| may_read(40 * LONG)));
}

#[test]
fn a_panic_in_a_turn_leaves_the_thread_as_it_was() {
    let panicked = std::panic::catch_unwind(|| run_usual(|| panic!("a defect")));
    assert!(panicked.is_err());
    assert!(may_read(LONG + 1), "no turn is in progress");
    assert_eq!(run_usual(|| may_read(LONG)), (true, None), "a short object needs no long turn");
    assert_eq!(run_usual(|| may_read(LONG + 1)), (false, Some(LONG + 1)));
}

/// Puts a shirt of more than [`LONG`] bytes.
fn put_long(fixture: &mut Fixture, name: &str) {
    let version = fixture.next_version();
    let shirt = json!({
        "apiVersion": "stable.example.com/v1", "kind": "Shirt",
        "metadata": { "name": name, "namespace": "default", "resourceVersion": version.to_string() },
        "spec": { "color": "blue", "size": 7, "pattern": "x".repeat(2 * LONG) },
    });
    let record = fixture.shirts.resource.extractor.extract(Bytes::from(shirt.to_string())).unwrap();
    fixture.shirts.store.apply(&record);
    fixture.shirts.publish();
}

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const ONE: &str = "/apis/stable.example.com/v1/namespaces/default/shirts/long";

/// What a request is, its path and its Accept header. Without a path: new events of the watch that is open already.
type Way<'a> = (&'a str, &'a str, &'a str);

fn watch_from(version: u64) -> String {
    format!("{SHIRTS}?watch=true&resourceVersion={version}&timeoutSeconds=60")
}

#[test]
fn every_way_to_a_long_object_takes_a_long_turn() {
    let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    // The fixture's first version is 101, that of the short object.
    let (initial, history) = (watch_from(0), watch_from(101));
    // The long object is read to be evaluated, and is not selected.
    let expression = format!("{SHIRTS}?celSelector=self.metadata.name.contains('first')");
    let ways = [
        ("a LIST by an expression", &*expression, "application/yaml"),
        ("a GET", ONE, "application/json"),
        ("a GET as YAML", ONE, "application/yaml"),
        ("a GET as a Table", ONE, TABLE),
        ("a LIST", SHIRTS, "application/json"),
        ("a LIST as YAML", SHIRTS, "application/yaml"),
        ("a LIST as a Table", SHIRTS, TABLE),
        ("a LIST of metadata in protobuf", SHIRTS, partial),
        ("initial events", &initial, "application/json"),
        ("events of history", &history, "application/json"),
        ("new events", "", "application/json"),
    ];
    assert_long_turns(Fixture::new(), |fixture| put_long(fixture, "long"), &ways);
}

/// The path of a printer column can read a short object very often.
#[test]
fn every_way_to_a_costly_column_takes_a_long_turn() {
    let (initial, history) = (watch_from(0), watch_from(101));
    let ways = [
        ("a GET as a Table", ONE, TABLE),
        ("a LIST as a Table", SHIRTS, TABLE),
        ("initial events", &initial, TABLE),
        ("events of history", &history, TABLE),
        ("new events", "", TABLE),
    ];
    let mut fixture = Fixture::new();
    let mut columns = fixture.shirts.resource.printer_columns.to_vec();
    columns[0].json_path = "..name".to_owned();
    let costly = Resource { printer_columns: columns.into(), ..fixture.shirts.resource.with_new_state() };
    fixture.shirts.resource = Arc::new(costly);
    fixture.registry.replace(catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]), |_| None);
    fixture.shirts.publish();
    assert_long_turns(fixture, |fixture| _ = fixture.put("default", "long", "blue"), &ways);
}

/// Rows of small objects can each take milliseconds. In a long turn, too, only few of them are made.
#[tokio::test]
async fn the_work_of_rows_is_divided_into_turns() {
    const ROWS: usize = 12;
    let nested = (0..7).fold(json!(vec![0.5; 60]), |inside, _| json!([inside]));
    let costly = vec![format!(".spec.pattern.n{}[?(@<@)]", "[0,0]".repeat(7))];
    let cheap = vec![".spec.pattern['a','a','a','a'][?(@<@)]".to_owned(); 17];
    for (what, paths) in [("one column that is not cheap", costly), ("many cheap columns", cheap)] {
        let mut fixture = Fixture::new();
        let of_path = |path| PrinterColumn { json_path: path, ..fixture.shirts.resource.printer_columns[0].clone() };
        let columns: Vec<PrinterColumn> = paths.into_iter().map(of_path).collect();
        let resource = Resource { printer_columns: columns.into(), ..fixture.shirts.resource.with_new_state() };
        fixture.shirts.resource = Arc::new(resource);
        fixture.registry.replace(catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]), |_| None);
        fixture.shirts.publish();
        for number in 0..ROWS {
            let version = fixture.next_version();
            let shirt = json!({
                "apiVersion": "stable.example.com/v1", "kind": "Shirt",
                "metadata": { "name": format!("n{number}"), "namespace": "default", "resourceVersion": version.to_string() },
                "spec": { "pattern": { "n": nested, "a": vec![0.5; 500] } },
            });
            let record = fixture.shirts.resource.extractor.extract(Bytes::from(shirt.to_string())).unwrap();
            fixture.shirts.store.apply(&record);
        }
        fixture.shirts.publish();
        let initial = format!("{SHIRTS}?watch=true&timeoutSeconds=60");
        for path in [format!("{SHIRTS}?includeObject=None"), initial, watch_from(100)] {
            let mut body = get_in(&fixture, &user("reader"), &path, TABLE).await.into_body();
            let (mut polls, mut rows) = (0, 0);
            while rows < ROWS {
                let frame = poll_fn(|context| {
                    polls += 1;
                    Pin::new(&mut body).poll_frame(context)
                });
                let frame = timeout(PATIENCE, frame).await.expect("more rows").expect("more rows").unwrap();
                rows += String::from_utf8_lossy(frame.data_ref().unwrap()).matches("\"cells\"").count();
            }
            assert!(polls >= ROWS / 2, "{what}: {path}: {rows} rows in {polls} turns");
        }
    }
}

/// Takes all permits, until the gate is opened.
async fn block_permits(seats: &Arc<Seats>, gate: &Arc<Gate>) -> JoinSet<()> {
    let processors = available_parallelism().unwrap().get();
    let permits = processors + processors.div_ceil(2);
    let mut blockers = JoinSet::new();
    for number in 0..permits {
        let (mut worker, gate) = (seats.worker(&user(&format!("blocker-{number}"))), gate.clone());
        let bytes = if number < processors { LONG + 1 } else { VERY_LONG + 1 };
        blockers.spawn(async move {
            worker.arrive().await.unwrap();
            let work = async {
                wait_to_read(bytes).await;
                gate.pass();
            };
            worker.work_through(work).await;
        });
    }
    while gate.blocked.load(Ordering::SeqCst) < permits {
        yield_now().await;
    }
    blockers
}

/// Otherwise the rejected requests of one user would take the long turns from the requests of others.
#[test]
fn a_response_for_which_there_is_no_room_is_rejected_before_its_long_turn() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut fixture = Fixture::new();
        put_long(&mut fixture, "long");
        let (limits, gate) = (fixture.server.limits(), Arc::new(Gate::default()));
        let reader = user("reader");
        let _blockers = block_permits(limits.seats(), &gate).await;
        let mut shares = Vec::new();
        while let Ok(share) = limits.unread().admit(&reader, LONG as u64) {
            shares.push(share);
        }
        for (path, accept) in [
            (ONE, "application/json"),
            (ONE, TABLE),
            (SHIRTS, "application/json"),
            (SHIRTS, "application/yaml"),
            (SHIRTS, TABLE),
        ] {
            let answer = timeout(PATIENCE / 2, get_in(&fixture, &reader, path, accept)).await;
            let answer = answer.unwrap_or_else(|_| panic!("{path} as {accept} waits for a long turn"));
            assert_eq!(answer.status(), 429, "{path} as {accept}");
        }
        drop(shares);
        let mut admitted = Box::pin(get_in(&fixture, &reader, ONE, "application/json"));
        assert!(timeout(Duration::from_millis(50), &mut admitted).await.is_err(), "with room, it waits for its turn");
        gate.open();
        assert_eq!(timeout(PATIENCE, admitted).await.expect("its turn").status(), 200);
    });
}

/// Takes all permits, and lets one request after the other come to the object that `put` adds.
fn assert_long_turns(mut fixture: Fixture, put: impl FnOnce(&mut Fixture), ways: &[Way<'_>]) {
    let open_as = ways.last().unwrap().2;
    let is_short = open_as == TABLE;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        assert_eq!(fixture.put("default", "first", "blue"), 101);
        let mut open = Some(get_in(&fixture, &user("watch"), &watch_from(101), open_as).await);
        assert!(open.as_mut().unwrap().body_mut().frame().now_or_never().is_none(), "nothing has changed yet");
        put(&mut fixture);
        let (fixture, gate) = (Arc::new(fixture), Arc::new(Gate::default()));
        let seats = fixture.server.limits().seats().clone();
        let _blockers = block_permits(&seats, &gate).await;
        let mut readers = JoinSet::new();
        let mut missing = Vec::new();
        for (number, (what, path, accept)) in ways.iter().copied().enumerate() {
            let (fixture, path) = (fixture.clone(), path.to_owned());
            let (name, accept) = (what.to_owned(), accept.to_owned());
            let open = open.take_if(|_| path.is_empty());
            readers.spawn(async move {
                let reader = user(&format!("reader-{number}"));
                let mut answer = match open {
                    Some(open) => open,
                    None => get_in(&fixture, &reader, &path, &accept).await,
                };
                assert_eq!(answer.status(), 200, "{name}");
                let mut bytes = 0;
                while bytes < LONG && accept == "application/json" && !is_short || bytes == 0 {
                    let frame = answer.body_mut().frame().await.expect(&name).expect(&name);
                    bytes += frame.data_ref().map_or(0, Bytes::len);
                }
                name
            });
            let comes = async {
                while seats.waiting() <= number {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            if timeout(Duration::from_secs(10), comes).await.is_err() {
                missing.push(what);
                break;
            }
        }
        let object = fixture.shirts.store.snapshot().get("default/long").cloned().unwrap();
        let is_measured = (1..=15).any(|format| object.noted_length(format).is_some());
        gate.open();
        while let Some(done) = timeout(PATIENCE, readers.join_next()).await.expect("all must be answered") {
            done.unwrap();
        }
        assert!(!is_measured, "a list in protobuf measures a long object in a usual turn");
        assert!(missing.is_empty(), "{missing:?} reads a long object in a usual turn");
    });
}
