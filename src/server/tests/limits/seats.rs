//! Seats in the runtime: whose request is served next, in numbers of requests and never in times.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use hyper::rt::Executor;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{get_as, user, whole, with_limits};
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::connections::Connections;
use crate::flow_control::exempt::is_exempt;
use crate::flow_control::limit::{Limit, LimitSettings};
use crate::flow_control::seats::{Seats, UNIT_TIME};
use crate::flow_control::user::User;
use crate::server::Settings;
use crate::server::tests::admission::cluster;
use crate::server::tests::{Fixture, SHIRTS};
use crate::store::HistoryLimits;
use crate::transport::head_error::HeadError;
use crate::transport::listen::Answers;
use crate::transport::stream_timeout::{Link, StreamTimeoutExecutor, until_ended};

const FLOOD: usize = 1_000;

fn with_seats(seats: u64) -> Arc<Fixture> {
    let mut fixture = with_limits(LimitSettings { seats, ..LimitSettings::default() });
    for number in 0..100 {
        fixture.put("default", &format!("shirt-{number}"), "blue");
    }
    Arc::new(fixture)
}

/// So many tasks request this path as one user; counts those that have their whole response.
fn flood(tasks: &mut JoinSet<u16>, fixture: &Arc<Fixture>, user_name: &str, path: &'static str) -> Arc<AtomicUsize> {
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..FLOOD {
        let (fixture, done, user_name) = (fixture.clone(), done.clone(), user(user_name));
        tasks.spawn(async move {
            let answer = whole(get_as(&fixture, &user_name, path).await).await;
            done.fetch_add(1, Ordering::Relaxed);
            answer.code.as_u16()
        });
    }
    done
}

/// The runtime has one thread, and takes tasks in the order of their arrival: without seats the last one is last.
#[tokio::test]
async fn a_request_of_another_user_comes_before_most_of_a_flood() {
    for path in [SHIRTS, "/apis/stable.example.com/v1/namespaces/default/shirts/shirt-7"] {
        let fixture = with_seats(4);
        let mut tasks = JoinSet::new();
        let done = flood(&mut tasks, &fixture, "flood", path);
        let quiet = tasks.spawn({
            let (fixture, done) = (fixture.clone(), done.clone());
            async move {
                let answer = whole(get_as(&fixture, &user("quiet"), path).await).await;
                assert_eq!(answer.code, 200);
                u16::try_from(done.load(Ordering::Relaxed)).unwrap()
            }
        });
        let mut before = None;
        let mut answered = 0;
        while let Some(finished) = tasks.join_next_with_id().await {
            let (id, number) = finished.unwrap();
            match id == quiet.id() {
                true => before = Some(usize::from(number)),
                // Some of the flood find a full queue, which is an answer too.
                false => answered += usize::from(number == 200 || number == 429),
            }
        }
        let before = before.unwrap();
        let refused = fixture.server.limits().rejections(Limit::Seats) as usize;
        assert_eq!(answered, FLOOD, "every request is answered");
        // Two rounds: what was in progress, and the one that it was in. A round of cheap requests is one of units.
        assert!(before <= refused + 2 * 4 * 8, "{path}: {before} came before it, {refused} of them refused");
        assert_eq!(fixture.server.limits().seats().waiting(), 0);
    }
}

#[tokio::test]
async fn a_user_finds_a_full_queue_and_another_one_does_not() {
    let fixture = with_seats(1);
    let mut tasks = JoinSet::new();
    flood(&mut tasks, &fixture, "flood", SHIRTS);
    let probe = {
        let fixture = fixture.clone();
        tasks.spawn(async move { whole(get_as(&fixture, &user("flood"), "/readyz").await).await.code.as_u16() })
    };
    let quiet = {
        let fixture = fixture.clone();
        tasks.spawn(async move { whole(get_as(&fixture, &user("quiet"), SHIRTS).await).await.code.as_u16() })
    };
    let late = {
        let fixture = fixture.clone();
        tasks.spawn(async move {
            let refused = whole(get_as(&fixture, &user("flood"), SHIRTS).await).await;
            assert_eq!(refused.header("retry-after"), Some("1").filter(|_| refused.code == 429).unwrap_or_default());
            let words = ["please try again later", "--max-seats=1 seats are taken", "user \"flood\" has 128 requests"];
            assert!(words.iter().all(|word| refused.message().contains(word)), "{}", refused.message());
            assert_eq!(refused.json()["details"]["causes"][0]["reason"], "SeatLimit");
            refused.code.as_u16()
        })
    };
    let mut codes = Vec::new();
    while let Some(finished) = tasks.join_next_with_id().await {
        let (id, code) = finished.unwrap();
        if id == late.id() {
            assert_eq!(code, 429, "the queue of one user is bounded");
        } else if id == quiet.id() || id == probe.id() {
            assert_eq!(code, 200, "another user, and probes of the same one");
        } else {
            codes.push(code);
        }
    }
    assert_eq!(codes.len(), FLOOD);
    let refused = codes.iter().filter(|code| **code == 429).count() as u64;
    assert_eq!(fixture.server.limits().rejections(Limit::Seats), refused + 1);
    assert!(refused > 0 && codes.contains(&200));
}

#[tokio::test]
async fn requests_that_cannot_be_routed_take_turns_too() {
    let fixture = with_seats(1);
    let mut tasks = JoinSet::new();
    for _ in 0..FLOOD {
        let fixture = fixture.clone();
        tasks.spawn(async move {
            let connection = ConnectionState::for_user(user("flood"), true);
            let failure = HeadError::Malformed("it is no URL".to_owned());
            fixture.server.reject(&connection, &Method::GET, failure).await.status().as_u16()
        });
    }
    let codes: BTreeSet<u16> = tasks.join_all().await.into_iter().collect();
    assert_eq!(codes, BTreeSet::from([400, 429]));
    assert!(fixture.server.limits().rejections(Limit::Seats) > 0);
}

/// What is read of a request before its user is known is work too.
#[tokio::test]
async fn requests_without_credentials_take_seats_of_their_address() {
    let limits = LimitSettings { seats: 1, ..LimitSettings::default() };
    let settings = Settings { access: Some(cluster()), limits, ..Settings::default() };
    let fixture = Arc::new(Fixture::with(settings, HistoryLimits::default()));
    let mut tasks = JoinSet::new();
    flood(&mut tasks, &fixture, "10.0.0.1", SHIRTS);
    let other = tasks.spawn({
        let fixture = fixture.clone();
        async move { whole(get_as(&fixture, &user("10.0.0.2"), SHIRTS).await).await.code.as_u16() }
    });
    let mut codes = HashMap::new();
    while let Some(finished) = tasks.join_next_with_id().await {
        let (id, code) = finished.unwrap();
        assert!(id != other.id() || code == 401, "another address is looked at");
        *codes.entry(code).or_insert(0) += 1;
    }
    assert_eq!(codes.keys().copied().collect::<BTreeSet<u16>>(), BTreeSet::from([401, 429]), "{codes:?}");
}

/// Responses in pieces take a turn for each: a long response in progress does not delay others, nor does one that is
/// not read.
#[tokio::test]
async fn pieces_of_long_answers_take_turns_and_readers_that_stop_take_none() {
    let mut fixture = with_limits(LimitSettings { seats: 1, ..LimitSettings::default() });
    let long = "x".repeat(60_000);
    for number in 0..60 {
        fixture.put_without_publishing("default", &format!("{long}{number}"), "blue");
    }
    fixture.shirts.publish();
    let fixture = Arc::new(fixture);
    // Never read beyond the head.
    let mut stopped = Vec::new();
    for _ in 0..20 {
        stopped.push(get_as(&fixture, &user("stopped"), SHIRTS).await);
    }
    let (mut tasks, done) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..50 {
        let (fixture, done) = (fixture.clone(), done.clone());
        tasks.spawn(async move {
            let mut body = get_as(&fixture, &user("flood"), SHIRTS).await.into_body();
            while let Some(frame) = body.frame().await {
                assert!(frame.is_ok());
                done.fetch_add(1, Ordering::Relaxed);
            }
            0
        });
    }
    let quiet = {
        let (fixture, done) = (fixture.clone(), done.clone());
        tasks.spawn(async move {
            assert_eq!(whole(get_as(&fixture, &user("quiet"), SHIRTS).await).await.code, 200);
            done.load(Ordering::Relaxed)
        })
    };
    let mut before = None;
    while let Some(finished) = tasks.join_next_with_id().await {
        let (id, pieces) = finished.unwrap();
        before = before.or(Some(pieces).filter(|_| id == quiet.id()));
    }
    let (before, pieces) = (before.unwrap(), done.load(Ordering::Relaxed));
    assert!(pieces >= 50 * 25, "long answers have many pieces: {pieces}");
    assert!(
        before < pieces * 3 / 4,
        "{before} of {pieces} pieces of the flood came before the whole answer of another user"
    );
    drop(stopped);
}

#[tokio::test]
async fn a_cancelled_request_leaves_nothing_behind() {
    let seats = Arc::new(Seats::new(1));
    let mut workers: Vec<_> = (0..100).map(|number| seats.worker(&user(&format!("user-{number}")))).collect();
    poll_fn(|context| {
        for worker in &mut workers {
            let _ = worker.poll_turn(context);
        }
        Poll::Ready(())
    })
    .await;
    assert!(seats.waiting() > 80, "eight units are one seat");
    assert_eq!(seats.taken(), 1);
    drop(workers);
    assert_eq!(seats.waiting(), 0);
    // The round ends by itself.
    let mut worker = seats.worker(&user("late"));
    worker.arrive().await.unwrap();
    assert_eq!(seats.taken(), 0, "no request waits");
}

/// The cost of a turn is unknown for users who have had none. All are granted in one round.
#[tokio::test]
async fn turns_of_a_second_are_not_one_round() {
    let seats = Arc::new(Seats::new(32));
    let done = Arc::new(AtomicUsize::new(0));
    let long_turns = |count: usize, users: usize, hog: &str| {
        let mut tasks = JoinSet::new();
        for number in 0..count {
            let (seats, done) = (seats.clone(), done.clone());
            let hog = user(&format!("{hog}-{}", number % users));
            tasks.spawn(async move {
                let mut worker = seats.worker(&hog);
                poll_fn(|context| worker.poll_turn(context)).await;
                worker.work_and_settle(Duration::from_secs(1), || done.fetch_add(1, Ordering::Relaxed));
            });
        }
        tasks
    };
    for (what, count, users, hog, others) in [
        ("a first burst", 34, 1, "hog", 10),
        ("another one after a pause", 34, 1, "hog", 10),
        ("a long one", 200, 1, "hog", 10),
        ("one of many users", 128, 128, "hog", 10),
        ("one of many users of a tenant", 128, 128, "system:serviceaccount:team:hog", 1),
    ] {
        // All seats of this round are taken, so all of the burst waits, and is granted turns together.
        seats.wait_for_turn(&user("third")).await.work_and_settle(Duration::from_secs(1), || ());
        let mut tasks = long_turns(count, users, hog);
        let (seats, done) = (seats.clone(), done.clone());
        let mut other = JoinSet::new();
        other.spawn(async move {
            let mut most = 0;
            for number in 0..10 {
                let before = done.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                seats.wait_for_turn(&user(&format!("other-{}", number % others))).await.work(|| ());
                most = most.max(done.load(Ordering::Relaxed) - before);
            }
            most
        });
        let most = other.join_next().await.unwrap().unwrap();
        assert!(most <= 4, "{what}: {most} turns of a second came before another user's");
        while tasks.join_next().await.is_some() {}
    }
    assert_eq!((done.load(Ordering::Relaxed), seats.waiting()), (524, 0), "all had their turn");
}

/// Events of watches are too small for a turn each.
#[tokio::test]
async fn work_without_a_turn_is_paid_for_with_the_next_one() {
    for (unpaid, is_full) in [(Duration::ZERO, false), (UNIT_TIME * 20, true)] {
        let seats = Arc::new(Seats::new(1));
        let mut worker = seats.wait_for_turn(&user("watch")).await;
        worker.work_and_settle(unpaid, || ());
        let mut other = seats.worker(&user("other"));
        let waits = poll_fn(|context| Poll::Ready(other.poll_turn(context).is_pending())).await;
        assert_eq!(waits, is_full, "after {unpaid:?}");
    }
}

/// Frames that are no requests are work too, such as SETTINGS that change every stream of a connection.
#[tokio::test]
async fn the_work_of_a_connection_itself_is_paid_for() {
    for carries_requests in [false, true] {
        let (seats, connections) = (Arc::new(Seats::new(1)), Arc::new(Connections::new(10)));
        let link = Arc::new(Link::new(Arc::default(), connections));
        if carries_requests {
            StreamTimeoutExecutor(link.clone()).execute(async {});
        }
        let mut polls = 0;
        let work = poll_fn(|context| {
            polls += 1;
            let begun = Instant::now();
            while begun.elapsed() < UNIT_TIME * 20 {}
            context.waker().wake_by_ref();
            if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        assert_eq!(until_ended(&link, Some(seats.worker(&user("peer"))), work).await, Some(()));
        let mut other = seats.worker(&user("other"));
        let waits = poll_fn(|context| Poll::Ready(other.poll_turn(context).is_pending())).await;
        assert_eq!(waits, carries_requests, "over HTTP/1.1 the responses pay");
    }
}

#[test]
fn only_the_control_plane_is_exempt_for_leases_and_every_user_for_probes() {
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/scheduler";
    for path in ["/healthz", "/livez", "/readyz", "/version", "//readyz"] {
        assert!(is_exempt(path, 7, None), "{path}");
        assert!(!is_exempt(path, 10_000, None), "{path} with a long query");
    }
    for path in ["/", "/api/v1/pods", "/healthzz", "/livez/ping", "/version/x", "/apis/version", lease] {
        assert!(!is_exempt(path, 0, None), "{path}");
    }
    for (name, expected) in [
        ("system:kube-scheduler", true),
        ("system:node:one", true),
        ("system:serviceaccount:kube-system:cloud-controller", true),
        ("system:serviceaccount:team-a:default", false),
        ("system:anonymous", false),
        ("jane", false),
    ] {
        assert_eq!(is_exempt(lease, 0, Some(&User::named(name))), expected, "{name}");
    }
    assert!(!is_exempt("/api/v1/pods", 0, Some(&User::named("system:kube-scheduler"))));
}
