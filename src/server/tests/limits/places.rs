//! Which clients have a place among the connections: the table alone, and over sockets.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::super::Fixture;
use super::super::admission::cluster;
use super::super::listen::{Running, run_listener};
use super::user;
use crate::flow_control::connection::{CloseReason, ConnectionState, PendingRequest};
use crate::flow_control::connections::{Connections, CountedConnection};
use crate::flow_control::limit::{Limit, LimitSettings, Limited};
use crate::server::Settings;
use crate::store::HistoryLimits;
use crate::transport::listen::Listener;

/// A connection with its place.
#[derive(Debug)]
struct Open {
    state: Arc<ConnectionState>,
    _place: CountedConnection,
}

impl Open {
    fn is_evicted(&self) -> bool {
        let is_evicted = self.state.wait_for_eviction().now_or_never().is_some();
        // To be seen again.
        if is_evicted {
            self.state.evict();
        }
        is_evicted
    }
}

impl Open {
    fn is_displaced(&self) -> bool {
        self.state.is_displaced()
    }
}

fn state(address: &str, is_trusted: bool) -> Arc<ConnectionState> {
    Arc::new(ConnectionState::new(address.parse::<IpAddr>().unwrap(), is_trusted))
}

fn open(connections: &Arc<Connections>, address: &str) -> Option<Open> {
    let state = state(address, false);
    let place = connections.enter(&state)?;
    Some(Open { state, _place: place })
}

/// One of a user that is named as its address.
fn authenticated(connections: &Arc<Connections>, address: &str) -> Option<Open> {
    of_user(connections, address, address)?.ok()
}

/// One of a user; an error if it is let in as an unauthenticated one only.
fn of_user(connections: &Arc<Connections>, address: &str, name: &str) -> Option<Result<Open, Limited>> {
    let open = open(connections, address)?;
    Some(open.state.authenticate(|| user(name)).map(|()| open))
}

#[test]
fn a_new_connection_takes_the_place_of_the_oldest_of_the_address_with_most() {
    let connections = Arc::new(Connections::new(16));
    let client = open(&connections, "192.0.2.9").unwrap();
    let flood: Vec<Open> = (0..3).map(|_| open(&connections, "192.0.2.1").unwrap()).collect();
    assert_eq!((connections.open(), connections.unauthenticated(), connections.most_unauthenticated()), (4, 4, 4));
    let other = open(&connections, "192.0.2.5").expect("a place is made");
    assert_eq!(flood.iter().map(Open::is_evicted).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(connections.unauthenticated(), 4);
    assert_eq!(connections.open(), 5, "an evicted one counts until it has ended");
    let more = open(&connections, "192.0.2.1").unwrap();
    assert!(flood[1].is_evicted() && !more.is_evicted(), "an attacker takes its own places");
    assert!(!client.is_evicted() && !other.is_evicted());
    // One that has authenticated is evicted by no unauthenticated one.
    client.state.authenticate(|| user("alice")).unwrap();
    let mut addresses = Vec::new();
    for number in 0..100 {
        addresses.push((number, open(&connections, &format!("198.51.100.{number}")).expect("a place is made")));
        addresses.retain(|(_, open)| !open.is_evicted());
    }
    assert!(!client.is_evicted(), "a reserved place");
    let left: Vec<i32> = addresses.iter().map(|(number, _)| *number).collect();
    assert_eq!(left, [96, 97, 98, 99], "the oldest had to go");
    assert_eq!(connections.closed(CloseReason::Evicted), 101);
    drop((client, flood, other, more, addresses));
    assert_eq!((connections.open(), connections.unauthenticated(), connections.of_busiest()), (0, 0, 0));
}

#[test]
fn evicted_connections_that_have_not_ended_are_bounded() {
    let connections = Arc::new(Connections::new(400));
    let flood: Vec<Open> = (0..1000).map_while(|_| open(&connections, "192.0.2.1")).collect();
    assert_eq!((flood.len(), connections.open(), connections.unauthenticated()), (164, 164, 100));
    assert_eq!(connections.rejections(), 1);
    let few: Vec<Open> = (0..1000).map_while(|_| open(&connections, "192.0.2.2")).collect();
    assert_eq!(few.len(), 21, "an address is let in while it has few connections beside the one with most");
    let others: Vec<Open> = (0..1000)
        .map_while(|number| open(&connections, &format!("198.51.{}.{}", number / 250, number % 250)))
        .collect();
    assert_eq!((others.len(), connections.unauthenticated()), (427, 100), "these are bounded too");
    assert_eq!(connections.open(), 100 + 512, "evicted ones count until they have ended");
}

#[test]
fn one_without_a_pending_request_is_evicted_first() {
    let connections = Arc::new(Connections::new(8));
    let (first, second) = (open(&connections, "192.0.2.1").unwrap(), open(&connections, "192.0.2.1").unwrap());
    let pending = first.state.begin_request();
    let third = open(&connections, "192.0.2.1").unwrap();
    assert!(!first.is_evicted() && second.is_evicted());
    let _both = (third.state.begin_request(), pending);
    let _fourth = open(&connections, "192.0.2.1").unwrap();
    assert!(first.is_evicted(), "if all have one, the oldest");
}

/// Otherwise one user with many WebSockets through a front proxy takes the places of all users behind it.
#[test]
fn a_websocket_behind_a_front_proxy_takes_the_place_of_its_user() {
    let connections = Arc::new(Connections::new(40));
    let upgraded = |name: &str| {
        let open = of_user(&connections, "192.0.2.1", "proxy")?.ok()?;
        open.state.count_for(&user(name));
        Some(open)
    };
    let alice = upgraded("alice").unwrap();
    let many: Vec<Open> = (0..29).map(|_| upgraded("mallory").expect("free places")).collect();
    assert_eq!(connections.of_busiest(), 0, "the address of the proxy keeps its share");
    let bob = upgraded("bob").expect("a place is made");
    assert_eq!(many.iter().filter(|open| open.is_displaced()).count(), 1, "by the user with the most");
    assert!(!alice.is_displaced() && !bob.is_displaced());
    let other = of_user(&connections, "192.0.2.1", "proxy").unwrap().expect("a place is made");
    assert_eq!(connections.of_busiest(), 1);
    drop((alice, many, bob, other));
    assert_eq!((connections.open(), connections.of_busiest(), connections.of_busiest_user()), (0, 0, 0));
}

#[test]
fn an_address_has_a_share_while_the_table_is_crowded() {
    let connections = Arc::new(Connections::new(40));
    let open_connections: Vec<Open> = (0..20).map(|_| authenticated(&connections, "192.0.2.1").unwrap()).collect();
    assert_eq!((connections.most_per_address(), connections.of_busiest()), (10, 20), "an address may have half of all");
    assert!(open(&connections, "192.0.2.1").is_none(), "but no more");
    assert!(open(&connections, "::ffff:192.0.2.1").is_none(), "however it is written");
    assert_eq!((connections.rejections(), connections.rejections_by_address()), (0, 2));
    let others: Vec<Open> =
        (0..10).map(|number| authenticated(&connections, &format!("2001:db8::{number}")).unwrap()).collect();
    assert!(authenticated(&connections, "2001:db8::ffff").is_none(), "a /64 network is one address");
    assert!(open(&connections, "2001:db8:0:1::1").is_some());
    drop(others);
    // With an unauthenticated one of its own, the address gives that one up.
    let mut open_connections = open_connections;
    open_connections.truncate(19);
    let waiting = open(&connections, "192.0.2.1").unwrap();
    let next = authenticated(&connections, "192.0.2.1").unwrap();
    assert!(waiting.is_evicted() && !next.is_evicted());
}

#[test]
fn authenticated_connections_have_three_quarters_and_others_the_rest() {
    let connections = Arc::new(Connections::new(8));
    let open_connections: Vec<Open> =
        (0..6).map(|number| authenticated(&connections, &format!("192.0.2.{number}")).unwrap()).collect();
    let refused = of_user(&connections, "192.0.2.100", "new").expect("a place without credentials").unwrap_err();
    assert_eq!(
        (refused.limit, &*refused.message),
        (
            Limit::ConnectionsPerUser,
            "too many connections: the maximum of 6 authenticated connections is open, 0 of them by user \"new\", and none of them can be closed for a new one. Reuse open connections (an HTTP/2 connection carries two thousand requests at a time), close idle ones, or raise --max-connections=8"
        )
    );
    assert_eq!((connections.open(), connections.rejections(), connections.rejections_by_user()), (6, 0, 1));
    assert!(open_connections.iter().all(|open| !open.is_displaced()), "a user with one connection keeps it");
    drop(open_connections);
    let trusted: Vec<_> = (0..9).map(|_| connections.enter(&state("127.0.0.1", true))).collect();
    assert_eq!(trusted.iter().filter(|place| place.is_some()).count(), 8, "without authentication there is one class");
}

#[test]
fn one_user_with_many_addresses_makes_room_for_others() {
    let connections = Arc::new(Connections::new(16));
    // All but the first have a watch, or a request.
    let mut open_connections = Vec::new();
    for number in 0..12 {
        let address = format!("192.0.2.{}", number / 4);
        let open = of_user(&connections, &address, "tenant").unwrap().expect("room for all");
        let request = (number > 0).then(|| open.state.begin_request());
        open_connections.push((open, request));
    }
    let displaced = |open_connections: &[(Open, Option<PendingRequest>)]| -> Vec<usize> {
        (0..open_connections.len()).filter(|number| open_connections[*number].0.is_displaced()).collect()
    };
    let own = of_user(&connections, "198.51.100.1", "tenant").unwrap().expect("its own makes room");
    assert_eq!(displaced(&open_connections), [0], "the one that is idle");
    let _request = own.state.begin_request();
    assert!(of_user(&connections, "198.51.100.2", "tenant").unwrap().is_err(), "none is idle any more");
    let mut others = Vec::new();
    for number in 1..=6 {
        let other = of_user(&connections, &format!("203.0.113.{number}"), "alice").unwrap().expect("an equal part");
        assert_eq!(displaced(&open_connections), (0..=number).collect::<Vec<_>>(), "the oldest");
        let request = other.state.begin_request();
        others.push((other, request));
        assert_eq!(connections.of_busiest_user(), (12 - number).max(6));
    }
    assert_eq!(connections.equal_part(), 6);
    assert!(of_user(&connections, "198.51.100.3", "alice").unwrap().is_err(), "no more than an equal part");
    let third = of_user(&connections, "198.51.100.4", "bob").unwrap().expect("a third user");
    let of_alice = others.iter().filter(|(open, _)| open.is_displaced()).count();
    assert_eq!(
        (displaced(&open_connections).len() + of_alice, connections.of_busiest_user()),
        (8, 6),
        "of one of those with most"
    );
    // What makes room ends in its own time.
    assert_eq!(connections.open(), 12 + 8);
    drop((open_connections, others, own, third));
    assert_eq!((connections.open(), connections.of_busiest(), connections.of_busiest_user()), (0, 0, 0));
}

#[test]
fn connections_that_end_gracefully_are_bounded() {
    let connections = Arc::new(Connections::new(400));
    let mut open_connections: Vec<Open> = (0..300)
        .map(|number| of_user(&connections, &format!("10.0.{}.1", number / 90), "tenant").unwrap().unwrap())
        .collect();
    for number in 0..200 {
        let mut new = of_user(&connections, &format!("10.1.{number}.1"), &format!("user-{number}"));
        if new.is_none() || matches!(new, Some(Err(_))) {
            assert_eq!(
                open_connections.iter().filter(|open| open.is_evicted()).count(),
                32,
                "half of those that end are cut"
            );
            assert_eq!(connections.open(), 300 + 64);
            // They end, and others make room.
            open_connections.retain(|open| !open.is_evicted());
            new = of_user(&connections, &format!("10.1.{number}.1"), &format!("user-{number}"));
        }
        open_connections.push(new.expect("an unauthenticated place").expect("a place for every user"));
    }
    assert_eq!(connections.of_busiest_user(), 100);
}

/// One connection, as a table that looks at everything knows it.
#[derive(Clone, Debug)]
struct Known {
    number: usize,
    user: Option<u8>,
    is_busy: bool,
}

/// The tenants of six users.
const TENANTS: [u8; 6] = [0, 0, 1, 2, 2, 2];

fn tenant_of(user: u8) -> u8 {
    TENANTS[usize::from(user)]
}

/// A ServiceAccount of a tenant's namespace.
fn name_of(user: u8) -> String {
    format!("system:serviceaccount:team-{}:user-{user}", tenant_of(user))
}

/// Of the users or tenants with the most connections, those with an idle one before others, and then the one with the
/// oldest. None if they have fewer than `least`.
fn naive_largest(known: &[Known], key_of: impl Fn(u8) -> u8, least: usize) -> Option<u8> {
    let connections_of = |key: u8| known.iter().filter(|one| one.user.map(&key_of) == Some(key)).collect::<Vec<_>>();
    let most = (0..6).map(|key| connections_of(key).len()).max().unwrap();
    let mut busiest: Vec<u8> = (0..6).filter(|key| most >= least && connections_of(*key).len() == most).collect();
    busiest.sort_by_key(|key| connections_of(*key)[0].number);
    let idle = busiest.iter().find(|key| connections_of(**key).iter().any(|one| !one.is_busy));
    idle.or(busiest.first()).copied()
}

/// The rules of users over one flat list, in the order of arrival.
fn naive_victim(known: &[Known], user: u8, places: usize) -> Result<Option<usize>, ()> {
    if known.iter().filter(|one| one.user.is_some()).count() < places {
        return Ok(None);
    }
    let in_tenant = |tenant: u8| -> Vec<Known> {
        known.iter().filter(|one| one.user.map(tenant_of) == Some(tenant)).cloned().collect()
    };
    let of_user = |user: u8| known.iter().filter(move |one| one.user == Some(user));
    let idle = |user: u8| of_user(user).find(|one| !one.is_busy).map(|one| one.number);
    let largest = naive_largest(known, tenant_of, in_tenant(tenant_of(user)).len() + 2);
    let victim = match largest {
        Some(tenant) => naive_largest(&in_tenant(tenant), |user| user, 1),
        None => naive_largest(&in_tenant(tenant_of(user)), |user| user, of_user(user).count() + 2),
    };
    match victim {
        Some(victim) => Ok(idle(victim).or_else(|| Some(of_user(victim).next()?.number))),
        None => idle(user).map(Some).ok_or(()),
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A user connects from an address.
    Connect { user: u8, address: u8, is_busy: bool },
    /// The connection at this place (modulo) ends.
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let connect = |users: std::ops::Range<u8>| {
        (users, 0u8..8, any::<bool>()).prop_map(|(user, address, is_busy)| Step::Connect { user, address, is_busy })
    };
    vec(prop_oneof![2 => connect(0..6), 3 => connect(0..1), 1 => (0usize..32).prop_map(Step::End)], 0..120)
}

proptest! {
    #[test]
    fn users_share_places_as_in_a_table_that_looks_at_everything(steps in steps()) {
        const MOST: usize = 20;
        let connections = Arc::new(Connections::new(MOST));
        let places = connections.most_authenticated();
        let (mut known, mut open_connections) = (Vec::<Known>::new(), HashMap::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Connect { user: user_number, address, is_busy } => {
                    // One connection an address, so that the bound of addresses does not apply.
                    let address = format!("10.{address}.{}.{}", number / 256, number % 256);
                    let tenant = tenant_of(user_number);
                    let is_there = |tenant: u8| known.iter().any(|one| one.user.map(tenant_of) == Some(tenant));
                    let part = places / (0..6).filter(|other| *other == tenant || is_there(*other)).count();
                    let own = known.iter().filter(|one| one.user.map(tenant_of) == Some(tenant)).count();
                    let expected = naive_victim(&known, user_number, places);
                    prop_assert!(own >= part || expected.is_ok(), "step {}: a tenant below its part gets in", number);
                    let new = of_user(&connections, &address, &name_of(user_number)).expect("there is always one without credentials");
                    let displaced: Vec<usize> = open_connections.iter().filter(|(_, (open, _)): &(&usize, &(Open, _))| open.is_displaced()).map(|(number, _)| *number).collect();
                    match (expected, new) {
                        (Ok(victim), Ok(open)) => {
                            prop_assert_eq!(&displaced, &Vec::from_iter(victim), "step {}", number);
                            known.retain(|one| Some(one.number) != victim);
                            let request = is_busy.then(|| open.state.begin_request());
                            open_connections.insert(number, (open, request));
                            known.push(Known { number, user: Some(user_number), is_busy });
                        }
                        (Err(()), Err(_)) => prop_assert_eq!(displaced, Vec::<usize>::new()),
                        (expected, new) => prop_assert!(false, "step {number}: {expected:?}, but {}", new.is_ok()),
                    }
                    open_connections.retain(|_, (open, _)| !open.is_displaced());
                }
                Step::End(place) if !known.is_empty() => {
                    let gone = known.remove(place % known.len());
                    open_connections.remove(&gone.number);
                }
                Step::End(_) => {}
            }
            prop_assert_eq!((connections.open(), connections.unauthenticated()), (known.len(), 0));
            let most = (0..6).map(|user| known.iter().filter(|one| one.user == Some(user)).count()).max().unwrap();
            prop_assert_eq!(connections.of_busiest_user(), most);
        }
    }
}

async fn run(fixture: &Fixture) -> Running {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    run_listener(fixture, listener.with_connections(fixture.server.limits().connections().clone()))
}

/// Sends a request with a valid token on a connection that stays open.
async fn send_request(stream: &mut TcpStream) -> std::io::Result<()> {
    let answer = send_request_as(stream, "alice").await?;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    Ok(())
}

/// The answer to a request with a token.
async fn send_request_as(stream: &mut TcpStream, token: &str) -> std::io::Result<String> {
    let request = format!("GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.trim_ascii_end().ends_with(b"}") {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Connects from an address of the loopback network.
async fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test]
async fn one_user_behind_many_addresses_keeps_no_other_user_out() {
    let limits = LimitSettings { connections: 16, ..LimitSettings::default() };
    let settings = Settings { access: Some(cluster()), limits, ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let running = run(&fixture).await;
    let mut flood = Vec::new();
    for last in 2..8 {
        for _ in 0..4 {
            let mut stream = connect_from(last, running.address).await;
            // It is refused, or one of its own makes room.
            let is_answered = send_request_as(&mut stream, "tenant").await.is_ok();
            flood.extend(is_answered.then_some(stream));
        }
    }
    let connections = fixture.server.limits().connections();
    assert_eq!(connections.of_busiest_user(), 12, "{connections:?}");
    for user in ["alice", "bob", "carol"] {
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = TcpStream::connect(running.address).await.unwrap();
            let answer = send_request_as(&mut client, user).await.unwrap_or_else(|error| panic!("{user}: {error}"));
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{user}: {answer}");
            clients.push(client);
        }
        for client in &mut clients {
            send_request_as(client, user).await.expect("it keeps its place");
        }
    }
    let mut ended = 0;
    for stream in &mut flood {
        ended += usize::from(send_request_as(stream, "tenant").await.is_err());
    }
    assert!(ended >= 3, "connections of the user with most have ended: {ended}");
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}

#[tokio::test]
async fn clients_with_credentials_are_answered_while_others_take_every_place() {
    let limits = LimitSettings { connections: 12, ..LimitSettings::default() };
    let settings = Settings { access: Some(cluster()), limits, ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let running = run(&fixture).await;
    let mut flood = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..5 {
        for _ in 0..40 {
            flood.push(TcpStream::connect(running.address).await.unwrap());
        }
        let mut client = TcpStream::connect(running.address).await.unwrap();
        send_request(&mut client).await.expect("a client with a valid token is answered");
        clients.push(client);
    }
    for client in &mut clients {
        send_request(client).await.expect("it keeps its place");
    }
    let connections = fixture.server.limits().connections();
    assert!(connections.unauthenticated() <= 3, "{connections:?}");
    assert!(fixture.server.limits().rejections(Limit::UnauthenticatedConnections) >= 190, "{connections:?}");
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}

/// However many users a tenant has, another tenant connects.
#[test]
fn the_users_of_one_tenant_keep_no_other_tenant_out() {
    let connections = Arc::new(Connections::new(400));
    let account = |number: usize| format!("system:serviceaccount:many:user-{number}");
    let address = |number: usize| format!("10.0.{}.{}", number / 250, number % 250);
    let mut held: Vec<Open> =
        (0..300).map(|number| of_user(&connections, &address(number), &account(number)).unwrap().unwrap()).collect();
    let requests: Vec<_> = held.iter().map(|open| open.state.begin_request()).collect();
    assert!(matches!(of_user(&connections, "10.9.0.1", &account(300)), Some(Err(_))), "all of its own are busy");
    for number in 0..30 {
        let other =
            of_user(&connections, &format!("10.8.0.{number}"), &format!("system:serviceaccount:other:user-{number}"));
        held.push(other.unwrap().unwrap());
    }
    assert_eq!(held.iter().filter(|open| open.is_displaced()).count(), 30);
    assert_eq!(held[300..].iter().filter(|open| open.is_displaced()).count(), 0);
    drop(requests);
}
