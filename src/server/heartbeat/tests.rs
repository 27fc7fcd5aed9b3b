//! Liveness while the workers of the serving runtime are blocked, and after it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;

use super::{Heartbeat, OLDEST};
use crate::registry::{Catalog, Registry};
use crate::server::probes::ProbeListener;
use crate::server::{Server, Settings};

const WORKERS: usize = 2;

/// Longer than a result is kept and any answer takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

fn request(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn health_checks_are_answered_while_every_worker_is_blocked() {
    let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().unwrap();
    let heartbeat = Heartbeat::default();
    let settings = Settings { checks: vec![heartbeat.check()], ..Settings::default() };
    let (probing, address) = runtime.block_on(async {
        let server = Server::new(Registry::new(Catalog::default()).into(), settings);
        let listener = ProbeListener::bind("127.0.0.1:0".parse().unwrap(), "--health-address").await.unwrap();
        let address = listener.address();
        (listener.start(server.into()).unwrap(), address)
    });
    runtime.spawn(heartbeat.clone().beat());
    let (blocked, is_blocked) = sync_channel(WORKERS);
    let releases: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (release, wait) = sync_channel::<()>(0);
            let blocked = blocked.clone();
            runtime.spawn(async move {
                blocked.send(()).unwrap();
                let _ = wait.recv();
            });
            release
        })
        .collect();
    for _ in 0..WORKERS {
        is_blocked.recv().unwrap();
    }
    let last = heartbeat.last();
    assert_eq!(request(address, "/livez"), "HTTP/1.1 200 OK", "load is no reason to restart");
    assert_eq!(request(address, "/readyz"), "HTTP/1.1 200 OK");
    assert_eq!(heartbeat.last(), last, "nothing runs there");
    assert!(heartbeat.is_recent(last + OLDEST).is_ok());
    let stuck = heartbeat.is_recent(last + OLDEST + Duration::from_secs(1));
    assert_eq!(stuck.unwrap_err(), "no task of the server has run for 31 s", "a server that is stuck is restarted");

    drop(releases);
    let deadline = Instant::now() + PATIENCE;
    while heartbeat.last() == last {
        assert!(Instant::now() < deadline, "it beats again");
        thread::yield_now();
    }
    drop(probing);
}
