//! Who has a place among the connections: the table alone, and over sockets.

use std::net::IpAddr;
use std::sync::Arc;

use futures::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::Fixture;
use super::super::admission::cluster;
use super::super::listen::{Running, run_listener};
use crate::server::Settings;
use crate::server::connection::{CloseReason, ConnectionState};
use crate::server::limits::connections::{Connections, CountedConnection};
use crate::server::limits::{Limit, LimitSettings};
use crate::server::listen::Listener;
use crate::store::HistoryLimits;

/// A connection with its place.
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

fn state(address: &str, is_trusted: bool) -> Arc<ConnectionState> {
    Arc::new(ConnectionState::new(address.parse::<IpAddr>().unwrap(), is_trusted))
}

fn open(connections: &Arc<Connections>, address: &str) -> Option<Open> {
    let state = state(address, false);
    let place = connections.enter(&state)?;
    Some(Open { state, _place: place })
}

fn authenticated(connections: &Arc<Connections>, address: &str) -> Option<Open> {
    let open = open(connections, address)?;
    open.state.authenticate();
    Some(open)
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
    // One that has authenticated is evicted by nobody.
    client.state.authenticate();
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
    assert_eq!(connections.refused(), 1);
}

#[test]
fn one_without_a_pending_request_is_evicted_first() {
    let connections = Arc::new(Connections::new(8));
    let (first, second) = (open(&connections, "192.0.2.1").unwrap(), open(&connections, "192.0.2.1").unwrap());
    let pending = first.state.begin();
    let third = open(&connections, "192.0.2.1").unwrap();
    assert!(!first.is_evicted() && second.is_evicted());
    let _both = (third.state.begin(), pending);
    let _fourth = open(&connections, "192.0.2.1").unwrap();
    assert!(first.is_evicted(), "if all have one, the oldest");
}

#[test]
fn an_address_has_a_share_while_the_table_is_crowded() {
    let connections = Arc::new(Connections::new(40));
    let held: Vec<Open> = (0..20).map(|_| authenticated(&connections, "192.0.2.1").unwrap()).collect();
    assert_eq!((connections.share(), connections.of_busiest()), (10, 20), "an address may have half of all");
    assert!(open(&connections, "192.0.2.1").is_none(), "but no more");
    assert!(open(&connections, "::ffff:192.0.2.1").is_none(), "however it is written");
    assert_eq!((connections.refused(), connections.refused_by_share()), (0, 2));
    let others: Vec<Open> =
        (0..10).map(|number| authenticated(&connections, &format!("2001:db8::{number}")).unwrap()).collect();
    assert!(authenticated(&connections, "2001:db8::ffff").is_none(), "a /64 network is one address");
    assert!(authenticated(&connections, "2001:db8:0:1::1").is_some());
    drop(others);
    // With an unauthenticated one of its own, the address gives that one up.
    let mut held = held;
    held.truncate(19);
    let waiting = open(&connections, "192.0.2.1").unwrap();
    let next = authenticated(&connections, "192.0.2.1").unwrap();
    assert!(waiting.is_evicted() && !next.is_evicted());
}

#[test]
fn authenticated_connections_may_have_every_place() {
    let connections = Arc::new(Connections::new(8));
    let held: Vec<Open> =
        (0..8).map(|number| authenticated(&connections, &format!("192.0.2.{number}")).unwrap()).collect();
    assert!(open(&connections, "192.0.2.100").is_none());
    assert_eq!((connections.open(), connections.refused()), (8, 1));
    drop(held);
    let trusted: Vec<_> = (0..9).map(|_| connections.enter(&state("127.0.0.1", true))).collect();
    assert_eq!(trusted.iter().filter(|place| place.is_some()).count(), 8, "without authentication there is one class");
}

async fn run(fixture: &Fixture) -> Running {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    run_listener(fixture, listener.with_connections(fixture.server.limits().connections().clone()))
}

/// Sends a request with a valid token on a connection that stays open.
async fn ask(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\n\r\n").await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&answer));
    Ok(())
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
        ask(&mut client).await.expect("a client with a valid token is answered");
        clients.push(client);
    }
    for client in &mut clients {
        ask(client).await.expect("it keeps its place");
    }
    let connections = fixture.server.limits().connections();
    assert!(connections.unauthenticated() <= 3, "{connections:?}");
    assert!(fixture.server.limits().refused(Limit::UnauthenticatedConnections) >= 190, "{connections:?}");
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}
