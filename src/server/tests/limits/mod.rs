//! Limits as a client meets them: what is refused, with which words, and what goes on.

mod bodies;
mod documents;
mod held;
mod lifetimes;
mod long_work;
mod pinned;
mod places;
mod seats;
mod selectors;
mod sockets;
mod turns;
mod unread;

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{ALL_SHIRTS, Answer, Fixture, SHIRTS};
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::limit::{Limit, LimitSettings};
use crate::flow_control::lists::LARGE;
use crate::flow_control::user::User;
use crate::flow_control::{HeadShare, Limits, header_bytes};
use crate::model::quantity::Bytes;
use crate::registry::{LoadState, OverMemory, PanicOrigin};
use crate::server::{Server, Settings};
use crate::store::HistoryLimits;
use crate::transport::heads::slots::unstarted_bytes;
use crate::wire::body::Body;

pub(super) fn with_limits(limits: LimitSettings) -> Fixture {
    Fixture::with(Settings { limits, ..Settings::default() }, HistoryLimits::default())
}

/// Shirts of more than [`LARGE`] together, as names are long.
pub(super) fn fill(fixture: &mut Fixture) {
    let long = "x".repeat(200_000);
    for number in 0..=LARGE / 200_000 {
        fixture.put_without_publishing("default", &format!("{long}{number}"), "blue");
    }
    fixture.put_without_publishing("default", "small", "green");
    fixture.shirts.publish();
}

pub(super) async fn get_as(fixture: &Fixture, user: &User, path: &str) -> http::Response<Body> {
    get_in(fixture, user, path, "*/*").await
}

pub(super) async fn get_in(fixture: &Fixture, user: &User, path: &str, accept: &str) -> http::Response<Body> {
    let request = Request::builder().uri(path).header("host", "127.0.0.1").header("accept", accept);
    let request = request.body(String::new()).unwrap();
    fixture.server.answer_to(&ConnectionState::for_user(user.clone(), true), request).await
}

async fn whole(response: http::Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { code: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&bytes).into_owned() }
}

pub(super) fn user(name: &str) -> User {
    User::named(name)
}

#[tokio::test]
async fn a_user_has_so_many_watches_and_another_user_his_own() {
    let fixture = with_limits(LimitSettings { watches_per_user: 2, ..LimitSettings::default() });
    let path = format!("{SHIRTS}?watch=1&resourceVersion=100");
    let (first, _second) = (get_as(&fixture, &user("a"), &path).await, get_as(&fixture, &user("a"), &path).await);
    let refused = whole(get_as(&fixture, &user("a"), &path).await).await;
    assert_eq!(refused.code, 429);
    assert_eq!(
        refused.message(),
        "too many watches: user \"a\" has 2 open, the maximum for one user. Close some, share one informer in each program, or raise --max-watches-per-user=2"
    );
    assert_eq!(refused.json()["reason"], "TooManyRequests");
    assert_eq!(
        refused.json()["details"],
        json!({"causes": [{"reason": "WatchesPerUserLimit", "field": "--max-watches-per-user"}]})
    );
    assert!(!refused.headers.contains_key("retry-after"));
    assert_eq!(get_as(&fixture, &user("b"), &path).await.status(), 200, "another user");
    assert_eq!(get_as(&fixture, &user("a"), SHIRTS).await.status(), 200, "lists are no watches");
    drop(first);
    assert_eq!(get_as(&fixture, &user("a"), &path).await.status(), 200, "one was closed");
    assert_eq!(fixture.server.limits().rejections(Limit::WatchesPerUser), 1);
    assert_eq!(fixture.server.limits().watches().of_busiest(), 1, "what was dropped at once is not open");
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_a_long_selector_counts_as_several() {
    let fixture = with_limits(LimitSettings { watches_per_user: 100, ..LimitSettings::default() });
    let path = |values: usize| {
        let values: Vec<String> = (0..values).map(|number| format!("v{number:04}")).collect();
        format!("{SHIRTS}?watch=1&resourceVersion=100&labelSelector=app+in+({})", values.join(","))
    };
    let mut watches = Vec::new();
    // (values, how many of the hundred are left for watches without a selector)
    for (values, left) in [(0, 99), (300, 99), (3_000, 95)] {
        watches.clear();
        watches.push(get_as(&fixture, &user("a"), &path(values)).await);
        while watches.len() <= 101 {
            let more = get_as(&fixture, &user("a"), &path(0)).await;
            if more.status() != 200 {
                break;
            }
            watches.push(more);
        }
        assert!((left - 2..=left + 2).contains(&(watches.len() - 1)), "{values} values leave {}", watches.len() - 1);
    }
    let refused = whole(get_as(&fixture, &user("a"), &path(3_000)).await).await;
    let message = refused.message();
    assert!(message.contains("This watch counts as ") && message.contains("--max-watches-per-user=100"), "{message}");
    // All users together have four times as many: a user gets what is free for everyone else.
    // The last two have a hundred each out of the reserve.
    for (name, expected) in [("b", 100), ("c", 100), ("d", 100), ("e", 100), ("f", 0)] {
        let before = watches.len();
        while watches.len() < before + 200 {
            let more = get_as(&fixture, &user(name), &path(0)).await;
            if more.status() != 200 {
                break;
            }
            watches.push(more);
        }
        let open = watches.len() - before;
        assert!(open.abs_diff(expected) <= 2, "{name} has {open}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_lists_take_turns_and_small_ones_gets_and_watches_pass_by() {
    let mut fixture = with_limits(LimitSettings { lists: 1, ..LimitSettings::default() });
    fill(&mut fixture);
    let fixture = Arc::new(fixture);
    let first = get_as(&fixture, &user("a"), SHIRTS).await;
    assert_eq!(first.status(), 200);
    let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(async { get_as(&fixture, &user("a"), SHIRTS).await })).collect();
    for request in &mut waiting {
        assert!(timeout(Duration::from_millis(1), request).await.is_err(), "it waits");
    }
    let refused = whole(get_as(&fixture, &user("a"), SHIRTS).await).await;
    assert_eq!((refused.code.as_u16(), refused.header("retry-after")), (429, "1"));
    assert_eq!(
        refused.message(),
        "too many requests, please try again later: --max-lists=1 large lists are in progress, 1 of them for user \"a\"; 4 more of this user wait. List less at a time (use a selector, a namespace or limit), watch instead of listing again, or raise \
         --max-lists"
    );
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "ListLimit");
    for path in [
        format!("{SHIRTS}/small"),
        format!("{SHIRTS}?fieldSelector=spec.color%3Dgreen"),
        format!("{SHIRTS}?limit=2"),
        format!("{SHIRTS}?watch=1"),
        "/api/v1/pods".to_owned(),
    ] {
        assert_eq!(get_as(&fixture, &user("a"), &path).await.status(), 200, "{path}");
    }
    let other = get_as(&fixture, &user("b"), SHIRTS).await;
    assert_eq!(other.status(), 200, "another user's first is not kept waiting");
    drop(other);
    let in_flight = fixture.server.limits().lists().in_flight();
    assert_eq!((in_flight.lists, in_flight.waiting), (1, 4));
    assert!(in_flight.bytes > LARGE, "{in_flight:?}");

    // A waiting request holds no state: it shows what there is when its turn comes.
    let mut last = waiting.pop().unwrap();
    drop(waiting);
    drop(first);
    let answer = timeout(Duration::from_secs(1), &mut last).await.expect("its turn");
    assert_eq!(answer.status(), 200);
    drop(answer);
    let in_flight = fixture.server.limits().lists().in_flight();
    assert_eq!((in_flight.lists, in_flight.bytes, in_flight.waiting), (0, 0, 0));
}

/// Otherwise a caller learned how many objects there are elsewhere, and how long they are, by how long a list of its
/// own may be.
#[tokio::test(start_paused = true)]
async fn whether_a_list_is_large_depends_on_nothing_but_what_it_shows() {
    let mut fixture = with_limits(LimitSettings { lists: 1, ..LimitSettings::default() });
    for number in 0..30 {
        fixture.put_without_publishing("team", &format!("{}{number}", "x".repeat(100_000)), "blue");
    }
    fixture.shirts.publish();
    let team = SHIRTS.replace("/default/", "/team/");
    let is_large = async |fixture: &Fixture| {
        let caller = user("b");
        let mut listed = Box::pin(get_as(fixture, &caller, &team));
        timeout(Duration::from_millis(1), &mut listed).await.is_err()
    };
    let all = ALL_SHIRTS.to_owned();
    for hidden in [0, 10] {
        for number in 0..hidden {
            fixture.put_without_publishing("default", &format!("{}{number}", "y".repeat(1_000_000)), "blue");
        }
        fixture.shirts.publish();
        // Takes the place of user b too, who may have no other one.
        let places = get_as(&fixture, &user("b"), &format!("{all}?pretty=true")).await;
        assert_eq!(places.status(), 200);
        assert!(!is_large(&fixture).await, "3 MB, beside {hidden} MB that it does not show");
        drop(places);
    }
    for number in 30..50 {
        fixture.put_without_publishing("team", &format!("{}{number}", "x".repeat(100_000)), "blue");
    }
    fixture.shirts.publish();
    let places = get_as(&fixture, &user("b"), &all).await;
    assert_eq!(places.status(), 200);
    assert!(is_large(&fixture).await, "5 MB");
    drop(places);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_has_waited_shows_the_newest_state() {
    let mut fixture = with_limits(LimitSettings { lists: 1, ..LimitSettings::default() });
    fill(&mut fixture);
    let first = get_as(&fixture, &user("a"), SHIRTS).await;
    let server = fixture.server.clone();
    let request = Request::builder().uri(SHIRTS).header("host", "127.0.0.1").body(String::new()).unwrap();
    let peer = ConnectionState::for_user(user("a"), true);
    let mut waiting = Box::pin(server.answer_to(&peer, request));
    assert!(timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    let version = fixture.put("default", "newer", "green");
    drop(first);
    let answer = whole(waiting.await).await;
    assert_eq!(answer.json()["metadata"]["resourceVersion"], json!(version.to_string()));
    assert!(answer.names().contains(&"default/newer".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_list_waits_a_quarter_of_a_minute_and_bytes_are_a_limit_of_their_own() {
    let mut fixture = with_limits(LimitSettings { list_bytes: Bytes(2 * LARGE), ..LimitSettings::default() });
    fill(&mut fixture);
    let first = get_as(&fixture, &user("a"), SHIRTS).await;
    let started = Instant::now();
    let refused = whole(get_as(&fixture, &user("a"), SHIRTS).await).await;
    assert_eq!((refused.code.as_u16(), started.elapsed().as_secs()), (429, 15));
    let used = "the large lists in progress, 1 of them for user \"a\", take --max-list-bytes=8Mi; ";
    assert!(refused.message().contains(used), "{}", refused.message());
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "ListBytesLimit");
    assert_eq!(fixture.server.limits().rejections(Limit::ListBytes), 1);
    drop(first);
    assert_eq!(get_as(&fixture, &user("a"), SHIRTS).await.status(), 200);
}

#[tokio::test]
async fn a_store_over_the_memory_limit_is_rejected_with_its_option_and_others_continue() {
    let fixture = Fixture::new();
    let over = OverMemory { limit: Bytes(1 << 30), held: Bytes(700 << 20), needed: Bytes(400 << 20) };
    fixture.hats.resource.state.publish(LoadState::OverMemory(over));
    for path in ["/apis/stable.example.com/v1/hats", "/apis/stable.example.com/v1/hats?watch=1"] {
        let refused = fixture.get(path).await;
        assert_eq!(refused.code, 503, "{path}");
        assert_eq!(
            refused.message(),
            "memory limit: this resource is not loaded. The other resources take 700Mi, this one needs more than 400Mi, \
             and --memory-limit is 1Gi. fieldcache does not evict loaded resources for a new one. Raise --memory-limit, \
             delete FieldCaches, or stop reading other resources: `fieldcache serve` unloads a resource that no --resource \
             names 15 minutes after its last request"
        );
        assert_eq!(refused.json()["reason"], "ServiceUnavailable");
        assert_eq!(refused.json()["details"]["causes"][0], json!({"reason": "MemoryLimit", "field": "--memory-limit"}));
    }
    assert_eq!(fixture.get(ALL_SHIRTS).await.code, 200);
    assert_eq!(fixture.server.limits().rejections(Limit::Memory), 2);
}

/// A server whose clock, which tables read for ages, is broken.
fn with_defect(fixture: &Fixture) -> Arc<Server> {
    let settings = Settings { clock: Arc::new(|| panic!("planted")), ..Settings::default() };
    Arc::new(Server::new(fixture.registry.clone(), settings))
}

#[tokio::test]
async fn a_panic_ends_one_request_or_one_watch_and_is_counted() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    fixture.server = with_defect(&fixture);
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let refused = fixture.get_with(SHIRTS, &table).await;
    assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (500, &json!("InternalError")));
    assert_eq!(fixture.registry.panics().count_of(PanicOrigin::Request), 1);
    assert_eq!(fixture.get(SHIRTS).await.code, 200, "the next request");

    // Watches, of which one meets the defect with the event that both receive.
    let mut whole = fixture.watch(&format!("{SHIRTS}?watch=1&resourceVersion=101")).await;
    let body = Body::stream(futures::stream::once(async { panic!("planted") }));
    let mut broken = body;
    broken.count_panics(fixture.registry.panics());
    let dropped = Arc::new(());
    broken.hold(dropped.clone());
    let frame = broken.frame().await.expect("an end that is no end");
    assert_eq!(frame.unwrap_err().to_string(), "internal error while the response was created");
    assert!(broken.frame().await.is_none(), "nothing comes after it");
    assert_eq!(Arc::strong_count(&dropped), 1, "what it held is free");
    fixture.put("default", "y", "blue");
    assert_eq!(whole.line().await, "ADDED default/y@102", "the other watch goes on");
    assert_eq!(fixture.registry.panics().count_of(PanicOrigin::Watch), 1);

    let mut pieces = Body::pieces(Box::new(std::iter::from_fn(|| panic!("planted"))));
    pieces.count_panics(fixture.registry.panics());
    assert!(pieces.frame().await.expect("an end that is no end").is_err());
    assert_eq!(fixture.registry.panics().count_of(PanicOrigin::Answer), 1);
}

#[test]
fn a_user_without_a_name_is_an_address() {
    for (address, name) in [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:ffff:ffff:ffff", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
    ] {
        assert_eq!(User::at(address.parse().unwrap()).name(), name, "{address}");
    }
    assert_eq!(user("a\"b").to_string(), "\"a\\\"b\"", "a message is not what a user makes of it");
}

/// Over HTTP/2 a header field can be one byte on the wire, and hundreds of bytes in memory.
#[test]
fn headers_count_by_what_they_take_in_memory() {
    let limits = Limits::new(LimitSettings { body_bytes: Bytes(1 << 20), ..LimitSettings::default() });
    let request = |fields: usize| {
        let request = (0..fields)
            .fold(Request::builder().uri("/api"), |request, number| request.header(format!("x{number}"), ""));
        request.body(()).unwrap()
    };
    for (fields, least) in [(8, 2 << 10), (480, 100 << 10)] {
        let (request, before) = (request(fields), std::cell::Cell::new(0));
        let taken = allocation_counter::measure(|| before.set(request.headers().clone().len()));
        let counted = header_bytes(request.headers());
        assert!(counted >= least && counted >= taken.bytes_total, "{fields}: {counted} of {}", taken.bytes_total);
        assert!(unstarted_bytes(&request) > counted, "{fields}");
    }
    let long = header_bytes(request(480).headers());
    let mut shares: Vec<HeadShare> = std::iter::from_fn(|| limits.admit_head(&user("a"), 4, long).ok()).collect();
    assert!((3..=5).contains(&shares.len()), "{}", shares.len());
    shares.iter_mut().for_each(HeadShare::release_authorized);
    assert!(limits.admit_head(&user("a"), 4, long).is_err(), "long headers count until the response");
    shares.clear();
    let mut shares: Vec<HeadShare> = (0..25).map(|_| limits.admit_head(&user("a"), 4, 2 << 10).unwrap()).collect();
    shares.iter_mut().for_each(HeadShare::release_authorized);
    assert!(limits.admit_head(&user("a"), 4, long).is_ok(), "others only until they are admitted");
}

#[test]
fn a_dozen_users_with_many_requests_leave_the_next_one_a_usual_request() {
    let limits = Limits::new(LimitSettings { body_bytes: Bytes(8 << 20), ..LimitSettings::default() });
    let mut shares = Vec::new();
    for name in 'a'..='l' {
        shares.extend(std::iter::from_fn(|| limits.admit_head(&user(&name.to_string()), 200, 2 << 10).ok()));
    }
    assert!(limits.admit_head(&user("a"), 200, 2 << 10).is_err(), "they have everything");
    assert!(limits.admit_head(&user("next"), 200, 2 << 10).is_ok(), "with a path and headers");
}

/// README states that a container needs half as much again as `--memory-limit`, and 2.5 GiB for the other bounds.
#[test]
fn the_container_of_the_manifests_has_room_for_all_bounds_together() {
    let manifest = include_str!("../../../../manifests/deployment.yaml");
    let after = |what: &str| {
        let (_, rest) = manifest.split_once(what).unwrap();
        Bytes::parse(rest.lines().next().unwrap().trim()).unwrap().0
    };
    let (_, limits) = manifest.split_once("limits:").unwrap();
    let (_, memory) = limits.split_once("memory:").unwrap();
    let container = Bytes::parse(memory.lines().next().unwrap().trim()).unwrap().0;
    let copies = after("--memory-limit=");
    assert!(copies + copies / 2 + (5 << 29) <= container, "{copies} {container}");
}
