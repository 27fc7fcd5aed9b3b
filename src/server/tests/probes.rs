//! The port for health checks: what it answers, and that it does so during a flood.
#![expect(clippy::disallowed_methods, reason = "the listener is a task, which the test ends")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{advance, timeout};

use super::Fixture;
use crate::server::Settings;
use crate::server::health::Check;
use crate::server::probes::ProbeListener;
use crate::store::HistoryLimits;

struct Probed {
    fixture: Fixture,
    address: SocketAddr,
    serving: JoinHandle<()>,
    is_well: Arc<AtomicBool>,
    runs: Arc<AtomicUsize>,
}

impl Drop for Probed {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn probed() -> Probed {
    let (is_well, runs) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (state, counter) = (is_well.clone(), runs.clone());
    let check = Check::one("store/secrets.v1", false, move || {
        counter.fetch_add(1, Ordering::Relaxed);
        if state.load(Ordering::Relaxed) { Ok(()) } else { Err("not loaded".to_owned()) }
    });
    let settings = Settings { checks: vec![check], ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let listener = ProbeListener::bind("127.0.0.1:0".parse().unwrap(), "--health-address").await.unwrap();
    let address = listener.address();
    let serving = tokio::spawn(listener.run(fixture.server.clone(), std::future::pending()));
    Probed { fixture, address, serving, is_well, runs }
}

/// The code and the body; the server closes the connection after it.
async fn probe(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: 10.0.0.1\r\nUser-Agent: kube-probe/1.36\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[tokio::test(start_paused = true)]
async fn it_has_the_plain_result_and_nothing_else() {
    let probed = probed().await;
    for (method, path, code, body) in [
        ("GET", "/readyz", 200, "ok"),
        ("GET", "/livez", 200, "ok"),
        ("GET", "/healthz", 200, "ok"),
        ("HEAD", "/readyz", 200, ""),
        ("GET", "/readyz?verbose", 200, "ok"),
        ("GET", "/readyz?exclude=store/secrets.v1", 200, "ok"),
        ("GET", "/readyz/ping", 404, "only /livez, /readyz and /healthz are served here\n"),
        ("GET", "/readyz/", 404, "only /livez, /readyz and /healthz are served here\n"),
        ("GET", "/apis", 404, "only /livez, /readyz and /healthz are served here\n"),
        ("POST", "/readyz", 405, "only GET and HEAD are allowed\n"),
    ] {
        assert_eq!(probe(probed.address, method, path).await, (code, body.to_owned()), "{method} {path}");
    }
    probed.is_well.store(false, Ordering::Relaxed);
    advance(Duration::from_secs(2)).await;
    for path in ["/readyz", "/readyz?verbose", "/readyz?exclude=store/secrets.v1"] {
        assert_eq!(probe(probed.address, "GET", path).await, (500, "readyz check failed\n".to_owned()), "{path}");
    }
    assert_eq!(probe(probed.address, "GET", "/livez").await.0, 200, "readiness alone");
    probed.is_well.store(true, Ordering::Relaxed);
    advance(Duration::from_secs(2)).await;
    assert_eq!(probe(probed.address, "GET", "/readyz").await.0, 200);
    probed.fixture.server.drain();
    advance(Duration::from_secs(2)).await;
    assert_eq!(probe(probed.address, "GET", "/readyz").await.0, 500, "the process is shutting down");
}

#[tokio::test(start_paused = true)]
async fn checks_run_once_a_second_however_many_probes_arrive() {
    let probed = probed().await;
    for _ in 0..50 {
        assert_eq!(probe(probed.address, "GET", "/readyz").await.0, 200);
    }
    // Paused time may have gone on while sockets were waited for, but not by a second for each.
    assert!(probed.runs.load(Ordering::Relaxed) < 10, "{:?}", probed.runs);
}

#[tokio::test]
async fn it_answers_while_silent_connections_take_every_place() {
    let probed = probed().await;
    let mut flood = Vec::new();
    for round in 0..5 {
        for _ in 0..100 {
            flood.push(TcpStream::connect(probed.address).await.unwrap());
        }
        let answered = timeout(Duration::from_secs(30), probe(probed.address, "GET", "/livez")).await;
        assert_eq!(answered.expect("an answer").0, 200, "{round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_or_endless_request_is_cut_after_seconds() {
    let probed = probed().await;
    for bytes in [&b""[..], b"GET /livez HTTP/1.1\r\nHost:", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(probed.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut received = Vec::new();
        let ended = timeout(Duration::from_secs(8), stream.read_to_end(&mut received)).await;
        assert!(ended.is_ok(), "{bytes:?}: still open");
    }
}
