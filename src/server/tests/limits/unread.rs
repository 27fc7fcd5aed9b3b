//! Clients that do not read: what is held for them is bounded for each and for all, and freed when they go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq, proptest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::{fill, get_as, user, whole, with_limits};
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::limit::{Limit, LimitSettings};
use crate::flow_control::slowest::{ResponseBacklog, slowest};
use crate::flow_control::unread::{Meter, Unread};
use crate::model::quantity::Bytes;
use crate::server::tests::listen::{Running, run_listener};
use crate::server::tests::{Fixture, SHIRTS};
use crate::transport::listen::Listener;

const SOON: Duration = Duration::from_secs(60);

/// What one answer holds at most: two pieces of a list, and one more with an object of the fixture, which has its name twice.
const EACH: u64 = (128 << 10) + (64 << 10) + 410_000;

/// In the event of an object.
const NEWS: &[u8] = b"\"name\":\"news\"";

/// Two ServiceAccounts in each of two namespaces.
fn name_of(user_number: u8) -> String {
    format!("system:serviceaccount:team-{}:user-{user_number}", user_number / 2)
}

proptest! {
    #[test]
    fn the_slowest_answers_of_the_heaviest_users_end(backlogs in vec((0u8..4, 0u64..50, 0u64..20), 0..40), most in 0u64..800) {
        let backlogs: Vec<ResponseBacklog> = backlogs
            .into_iter()
            .map(|(user_number, bytes, progress)| ResponseBacklog { user: user(&name_of(user_number)), bytes, progress })
            .collect();
        let ended = slowest(&backlogs, most);
        let mut left: Vec<Option<&ResponseBacklog>> = backlogs.iter().map(Some).collect();
        for place in &ended {
            let total: u64 = left.iter().flatten().map(|answer| answer.bytes).sum();
            prop_assert!(total > most, "no answer ends that need not");
            let bytes_of = |name: &str| -> u64 {
                left.iter().flatten().filter(|answer| answer.user.name() == name).map(|answer| answer.bytes).sum()
            };
            let gone = left[*place].expect("it ends once");
            let tenant_of = |user_number: u8| (user_number / 2) * 2;
            let of_tenant = |tenant: u8| bytes_of(&name_of(tenant)) + bytes_of(&name_of(tenant + 1));
            let user_number = (0..4).find(|user_number| name_of(*user_number) == gone.user.name()).unwrap();
            let tenant = tenant_of(user_number);
            prop_assert!((0..4).all(|other| of_tenant(tenant_of(other)) <= of_tenant(tenant)), "its tenant has the most");
            let fellows = [tenant, tenant + 1];
            prop_assert!(fellows.iter().all(|other| bytes_of(&name_of(*other)) <= bytes_of(gone.user.name())), "its user has the most");
            let slower = |other: &&ResponseBacklog| other.user == gone.user && other.bytes > 0 && other.progress < gone.progress;
            prop_assert!(!left.iter().flatten().any(slower), "no slower one of this user is left");
            left[*place] = None;
        }
        let total: u64 = left.iter().flatten().map(|answer| answer.bytes).sum();
        prop_assert!(total <= most);
        prop_assert_eq!(slowest(&backlogs, u64::MAX), Vec::<usize>::new());
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn watches_make_no_pieces_past_the_bound_until_what_has_ended_is_free() {
    let (most, piece, watches) = (1 << 20, 1 << 10, 2_000);
    let unread = Arc::new(Unread::new(Bytes(most)));
    let woken: Vec<Arc<Woken>> = (0..watches).map(|_| Arc::default()).collect();
    let wakers: Vec<Waker> = woken.iter().map(|woken| Waker::from(woken.clone())).collect();
    let mut meters: Vec<_> =
        (0..watches).map(|number| unread.meter(&user(&format!("user-{}", number % 7)), true, None)).collect();
    // No client reads, and no task of an ended watch gets its turn.
    let mut unread_pieces: Vec<Vec<bytes::Bytes>> = vec![Vec::new(); watches];
    for _round in 0..64 {
        for ((meter, waker), pieces) in meters.iter_mut().zip(&wakers).zip(&mut unread_pieces) {
            let context = Context::from_waker(waker);
            if meter.response().is_none_or(|answer| !answer.is_ended()) && meter.ready_or_wake(&context) {
                pieces.push(meter.count(bytes::Bytes::from(vec![0; piece]), &context).unwrap());
            }
        }
        assert!(unread.bytes() <= most + most / 4 + piece as u64, "{} bytes are unread", unread.bytes());
    }
    assert!(unread.bytes() > most && unread.ended() > 0, "{} bytes, {} ended", unread.bytes(), unread.ended());
    let waiting = |unread_pieces: &[Vec<bytes::Bytes>]| unread_pieces.iter().filter(|pieces| pieces.is_empty()).count();
    assert!(waiting(&unread_pieces) > 0, "some had to wait for their first piece");
    // The tasks of the watches that have ended run: the waiting ones continue.
    for (meter, pieces) in meters.iter().zip(&mut unread_pieces) {
        if meter.response().is_some_and(|answer| answer.is_ended()) {
            pieces.clear();
        }
    }
    assert!(unread.bytes() <= most, "{} bytes are unread", unread.bytes());
    for ((meter, woken), waker) in meters.iter().zip(&woken).zip(&wakers) {
        if meter.response().is_none() {
            assert!(woken.0.load(Ordering::Relaxed) > 0, "a watch that waits for its first piece is not woken");
            assert!(meter.ready_or_wake(&Context::from_waker(waker)));
        }
    }
}

#[test]
fn a_waiting_watch_is_woken_when_the_last_ended_one_is_gone_although_the_bound_is_still_exceeded() {
    let unread = Arc::new(Unread::new(Bytes(1_000)));
    let woken: Arc<Woken> = Arc::default();
    let waker = Waker::from(woken.clone());
    let context = Context::from_waker(&waker);
    let [mut ended, mut next, waiting] = ["ended", "next", "waiting"].map(|name| unread.meter(&user(name), true, None));
    let count = |meter: &mut Meter, bytes: usize| meter.count(bytes::Bytes::from(vec![0; bytes]), &context).unwrap();
    // A user of whom nothing is unread would not wait.
    let mut other = unread.meter(&user("waiting"), true, None);
    let _other = count(&mut other, 20);
    let (read, rest) = (count(&mut ended, 900), count(&mut ended, 101));
    assert!(ended.response().is_some_and(|answer| answer.is_ended()));
    // Its client reads meanwhile, so the other bytes exceed the bound by more than is known.
    drop(read);
    let _unread = count(&mut next, 1_200);
    assert!(!next.response().unwrap().is_ended());
    assert!(!waiting.ready_or_wake(&context), "the bound and its quarter are exceeded");
    let before = woken.0.load(Ordering::Relaxed);
    drop((rest, ended));
    assert!(woken.0.load(Ordering::Relaxed) > before, "the watch that waits is not woken");
    assert!(waiting.ready_or_wake(&context), "the bound is exceeded by less than a quarter");
    assert!(!next.response().unwrap().is_ended());
}

#[test]
fn watches_of_a_user_with_few_unread_bytes_continue_beside_those_of_others_that_fill_the_bound() {
    let unread = Arc::new(Unread::new(Bytes(64_000)));
    let woken: Arc<Woken> = Arc::default();
    let waker = Waker::from(woken.clone());
    let context = Context::from_waker(&waker);
    let count = |meter: &mut Meter, bytes: usize| meter.count(bytes::Bytes::from(vec![0; bytes]), &context).unwrap();
    let meters = |name: &str, number: usize| -> Vec<Meter> {
        (0..number).map(|_| unread.meter(&user(name), true, None)).collect()
    };
    // Their readers read, so none of them ends for long, and new ones take their place.
    let (mut heavy, mut light) = (meters("heavy", 81), meters("light", 3));
    let counted: Vec<_> = heavy.iter_mut().take(80).map(|meter| count(meter, 1_001)).collect();
    assert!(unread.bytes() > 80_000, "{} bytes", unread.bytes());
    assert!(!heavy[80].ready_or_wake(&context), "past a quarter above the bound");
    let [first, second, third] = &mut light[..] else { unreachable!() };
    assert!(first.ready_or_wake(&context), "nothing of this user is unread");
    let taken = count(first, 600);
    assert!(second.ready_or_wake(&context), "600 of 1,000 bytes");
    let _second = count(second, 450);
    assert!(!third.ready_or_wake(&context), "it has its part");
    let before = woken.0.load(Ordering::Relaxed);
    drop(taken);
    assert!(woken.0.load(Ordering::Relaxed) > before, "a reader of the same user has read");
    assert!(third.ready_or_wake(&context));
    drop(counted);
}

async fn serve(unread_bytes: u64) -> (Fixture, Running) {
    let mut fixture = with_limits(LimitSettings { unread_bytes: Bytes(unread_bytes), ..LimitSettings::default() });
    fill(&mut fixture);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let listener = listener.with_connections(fixture.server.limits().connections().clone());
    let running = run_listener(&fixture, listener);
    (fixture, running)
}

/// Connects from an address; the kernel takes little before it is read.
async fn connect(running: &Running, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(running.address).await.unwrap()
}

async fn open_request(running: &Running, from: &str, path: &str) -> TcpStream {
    let mut stream = connect(running, from).await;
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Opens so many streams of HTTP/2, with windows as large as may be, and reads nothing.
async fn open_streams(running: &Running, from: &str, path: &str, streams: u8) -> TcpStream {
    open_streams_with_window(running, from, path, streams, [0x7f, 0xff, 0xff, 0xff]).await
}

/// The same with another window for each stream.
async fn open_streams_with_window(
    running: &Running,
    from: &str,
    path: &str,
    streams: u8,
    window: [u8; 4],
) -> TcpStream {
    let mut stream = connect(running, from).await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        bytes.extend_from_slice(&[0, (payload.len() >> 8) as u8, payload.len() as u8, kind, flags, 0, 0, 0, stream]);
        bytes.extend_from_slice(payload);
    };
    // SETTINGS_INITIAL_WINDOW_SIZE, and as much for the connection.
    frame(4, 0, 0, &[&[0, 4], &window[..]].concat());
    frame(8, 0, 0, &[0x7f, 0xff, 0, 0]);
    for number in 0..streams {
        // GET, http, and :path and :authority as literals without an index.
        let mut head = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend_from_slice(path.as_bytes());
        head.extend_from_slice(b"\x01\x09127.0.0.1");
        frame(1, 0x5, number * 2 + 1, &head);
    }
    stream.write_all(&bytes).await.unwrap();
    stream
}

/// Until the server has nothing to do for these clients.
async fn settled(fixture: &Fixture, is_settled: impl Fn(u64) -> bool) -> u64 {
    let unread = fixture.server.limits().unread();
    timeout(SOON, async {
        let mut before = u64::MAX;
        loop {
            sleep(Duration::from_millis(50)).await;
            let now = unread.bytes_of_all();
            if now == before && is_settled(now) {
                return now;
            }
            before = now;
        }
    })
    .await
    .expect("it settles")
}

#[tokio::test]
async fn an_answer_that_is_not_read_holds_little_over_both_protocols_and_frees_it() {
    let (fixture, running) = serve(1 << 30).await;
    for path in [format!("{SHIRTS}?watch=1&resourceVersion=0"), SHIRTS.to_owned()] {
        let mut stopped = Vec::new();
        for _ in 0..5 {
            stopped.push(open_request(&running, "127.0.0.1", &path).await);
        }
        let bytes_held = settled(&fixture, |bytes| bytes > 0).await;
        assert!(bytes_held <= 5 * EACH, "{path}: {bytes_held}");
        drop(stopped);
        settled(&fixture, |bytes| bytes == 0).await;

        let stopped = open_streams(&running, "127.0.0.1", &path, 20).await;
        let bytes_held = settled(&fixture, |bytes| bytes > 20 * 60_000).await;
        assert!(bytes_held <= 20 * EACH, "{path}: {bytes_held}");
        drop(stopped);
        settled(&fixture, |bytes| bytes == 0).await;
    }
}

#[tokio::test]
async fn beyond_the_bound_the_slowest_answers_end_and_other_users_go_on() {
    let most = 2 << 20;
    let (mut fixture, running) = serve(most).await;
    let watch = format!("{SHIRTS}?watch=1&resourceVersion=0");
    let green = format!("{watch}&fieldSelector=spec.color%3Dgreen");
    let mut reading = open_request(&running, "127.0.0.2", &green).await;
    let mut stopped_beside = open_request(&running, "127.0.0.2", &watch).await;
    settled(&fixture, |bytes| bytes > 0).await;

    let mut stopped = Vec::new();
    for _ in 0..30 {
        stopped.push(open_request(&running, "127.0.0.1", &watch).await);
    }
    let streams = open_streams(&running, "127.0.0.1", &watch, 40).await;
    let limits = fixture.server.limits();
    timeout(SOON, async {
        while limits.rejections(Limit::UnreadBytes) < 20 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("answers end");
    settled(&fixture, |bytes| bytes <= most).await;

    // An ended answer is not whole, which its client sees: no last chunk.
    let mut broken = 0;
    for stream in &mut stopped {
        let mut rest = Vec::new();
        let ended = timeout(Duration::from_millis(500), stream.read_to_end(&mut rest)).await;
        broken += usize::from(ended.is_ok() && !rest.ends_with(b"0\r\n\r\n"));
    }
    assert!(broken > 0, "connections are closed");

    // The other user's watches are there, though one of them stopped before all others.
    fixture.put("default", "news", "green");
    for stream in [&mut reading, &mut stopped_beside] {
        let mut seen = Vec::new();
        timeout(SOON, async {
            while !seen.windows(NEWS.len()).any(|window| window == NEWS) {
                let mut part = vec![0; 64 << 10];
                let length = stream.read(&mut part).await.unwrap();
                assert!(length > 0, "a watch of another user has ended");
                // Only what may be the beginning of it.
                drop(seen.drain(..seen.len().saturating_sub(NEWS.len())));
                seen.extend_from_slice(&part[..length]);
            }
        })
        .await
        .expect("news");
    }
    drop((reading, stopped_beside, stopped, streams));
    settled(&fixture, |bytes| bytes == 0).await;
}

/// A connection of HTTP/1.1 stays open for a minute and a half after its last response.
#[tokio::test]
async fn a_response_that_was_read_takes_nothing_while_its_connection_is_open() {
    // Room for two lists of one user at a time.
    let (_fixture, running) = serve(1 << 20).await;
    let mut idle = Vec::new();
    for number in 0..20 {
        let mut stream = open_request(&running, "127.0.0.1", SHIRTS).await;
        let mut whole = Vec::new();
        timeout(SOON, async {
            while !whole.ends_with(b"0\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut whole).await.unwrap(), 0, "the connection of list {number} has ended");
                let refused = whole.starts_with(b"HTTP/1.1 429");
                assert!(!refused, "list {number}: {}", whole.escape_ascii());
            }
        })
        .await
        .expect("a whole response");
        idle.push(stream);
    }
}

#[tokio::test]
async fn responses_that_are_not_read_are_bounded_together_before_they_are_sent() {
    let mut fixture =
        with_limits(LimitSettings { unread_bytes: Bytes(64 << 20), lists: 1000, ..LimitSettings::default() });
    fill(&mut fixture);
    let long = "y".repeat(60_000);
    fixture.put("default", &long, "blue");
    let object = format!("{SHIRTS}/{long}");
    for (path, accept) in [
        (SHIRTS.to_owned(), "application/json"),
        (object.clone(), "application/json"),
        (object, "application/yaml"),
        (SHIRTS.to_owned(), "application/yaml"),
    ] {
        let open_request = async |name: &str| {
            let request = http::Request::builder().uri(&path).header("host", "127.0.0.1").header("accept", accept);
            let state = ConnectionState::for_user(user(name), true);
            fixture.server.answer_to(&state, request.body(String::new()).unwrap()).await
        };
        let mut responses = Vec::new();
        let refused = loop {
            let response = open_request("a").await;
            if response.status() != 200 {
                break whole(response).await;
            }
            responses.push(response);
            assert!(responses.len() < 600, "{path:.60} {accept}: as many as one wants");
        };
        assert_eq!((refused.code.as_u16(), refused.header("retry-after")), (429, "1"), "{path:.60} {accept}");
        assert!(refused.body.contains("raise --max-unread-bytes"), "{}", refused.body);
        assert_eq!(open_request("b").await.status(), 200, "{path:.60} {accept}: another user");
        assert_eq!(get_as(&fixture, &user("a"), &format!("{SHIRTS}/small")).await.status(), 200, "what is small");
        responses.clear();
        assert_eq!(open_request("a").await.status(), 200, "{path:.60} {accept}: what was read is free again");
    }
}

#[tokio::test]
async fn small_responses_that_are_not_read_are_bounded_and_end_their_connection() {
    // The second one cannot be routed.
    for path in ["/livez", "/\u{1}"] {
        // Room for some 250 of one address.
        let (fixture, running) = serve(1 << 20).await;
        let mut stopped = Vec::new();
        for _ in 0..8 {
            stopped.push(open_streams_with_window(&running, "127.0.0.1", path, 100, [0, 0, 0, 1]).await);
        }
        let mut ended = 0;
        for stream in &mut stopped {
            let mut rest = Vec::new();
            ended += usize::from(timeout(Duration::from_millis(500), stream.read_to_end(&mut rest)).await.is_ok());
        }
        assert!((1..8).contains(&ended), "{path:?}: {ended} of 8 connections have ended");
        let mut other = connect(&running, "127.0.0.2").await;
        other.write_all(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await.unwrap();
        let mut first = [0; 15];
        timeout(SOON, other.read_exact(&mut first)).await.expect("a response").unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK", "another address is served");
        drop((stopped, fixture));
    }
}
