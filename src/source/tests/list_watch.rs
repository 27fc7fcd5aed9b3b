//! A connection that breaks in the middle of a list, and one that sends nothing any more. Everything else of the state
//! machine is tested beside a real API server.

#![expect(clippy::disallowed_methods, reason = "the server of the test is a task of its own")]

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval, pause, resume, timeout};

use super::feed::resource;
use crate::model::Version;
use crate::registry::LoadState;
use crate::source::connection::{ClusterOptions, Connection};
use crate::source::feed::Feed;
use crate::source::list_watch::{ListWatchOptions, follow};
use crate::store::HistoryLimits;

#[tokio::test]
async fn a_list_that_breaks_off_is_dropped_before_the_next_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let (break_off, breaks_off) = oneshot::channel::<()>();
    tokio::spawn(async move {
        // One connection: a client that comes again finds no server.
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        let object = r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"3"}}"#;
        let line = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
        // A chunk, and no end.
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{:x}\r\n{line}\r\n", line.len()).as_bytes()).await.unwrap();
        breaks_off.await.unwrap();
    });
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    let let_go = async {
        let mut looks = interval(Duration::from_millis(5));
        while !resource.state.is_relisting() {
            looks.tick().await;
        }
        break_off.send(()).unwrap();
        while resource.state.is_relisting() {
            looks.tick().await;
        }
    };
    let ended = timeout(Duration::from_secs(20), async {
        tokio::select! {
            biased;
            () = let_go => {}
            () = follow(&connection, &resource, &mut feed, ListWatchOptions::default()) => panic!("the source still serves the resource"),
        }
    });
    ended.await.expect("what was listed is let go before the next list begins");
    assert_eq!(feed.listed(), 0);
}

#[tokio::test]
async fn an_unanswered_watch_is_repeated_on_another_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let (trigger, triggered) = oneshot::channel::<()>();
    // When the connections came whose peer says nothing.
    let server_task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{:x}\r\n{end}\n\r\n", end.len() + 1).as_bytes()).await.unwrap();
        triggered.await.unwrap();
        let mut silent = Vec::new();
        let mut came = Vec::new();
        while came.len() < 6 {
            let (stream, _) = listener.accept().await.unwrap();
            silent.push(stream);
            came.push(Instant::now());
        }
        came
    });
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    let came = async {
        let mut looks = interval(Duration::from_millis(5));
        while !matches!(resource.state.load_state(), LoadState::Ready(_)) {
            looks.tick().await;
        }
        // From here on the server does not respond, and hours pass in no time.
        pause();
        assert!(resource.state.freshness().want(Version::new(9)));
        trigger.send(()).unwrap();
        server_task.await.unwrap()
    };
    let came = tokio::select! {
        biased;
        came = came => came,
        () = follow(&connection, &resource, &mut feed, ListWatchOptions::default()) => panic!("the source still serves the resource"),
    };
    // Each attempt brings a request for the source's version too.
    let waits: Vec<u64> = came.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert!(waits.iter().all(|wait| *wait <= 63), "the longest wait for an answer, and a pause: {waits:?}");
    assert!(waits.iter().max() > Some(&9), "each attempt waits longer: {waits:?}");
}

#[tokio::test]
async fn a_watch_for_progress_is_repeated_when_its_connection_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    // Serves the list, then begins to serve every watch and sends no more; the requested version is ahead.
    let server_task = tokio::spawn(async move {
        let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        let (mut silent, mut proofs) = (Vec::new(), Vec::new());
        while proofs.len() < 3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut room = vec![0; 4096];
            let length = stream.read(&mut room).await.unwrap();
            let request = String::from_utf8_lossy(&room[..length]).into_owned();
            let answer = if request.contains("limit=1") {
                let list = r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#;
                format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{list}", list.len())
            } else if request.contains("sendInitialEvents") {
                let chunk = format!("{:x}\r\n{end}\n\r\n", end.len() + 1);
                format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}")
            } else {
                proofs.push(Instant::now());
                format!("{head}transfer-encoding: chunked\r\n\r\n")
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
            silent.push(stream);
        }
        proofs
    });
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    let proofs = async {
        let mut looks = interval(Duration::from_millis(5));
        while !matches!(resource.state.load_state(), LoadState::Ready(_)) {
            looks.tick().await;
        }
        pause();
        assert!(resource.state.freshness().want(Version::new(9)));
        server_task.await.unwrap()
    };
    let proofs = tokio::select! {
        biased;
        proofs = proofs => proofs,
        () = follow(&connection, &resource, &mut feed, ListWatchOptions::default()) => panic!("the source still serves the resource"),
    };
    let waits: Vec<u64> = proofs.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert!(waits.iter().all(|wait| *wait <= 63), "the watch's own time, the wait for an answer, a pause: {waits:?}");
}

#[tokio::test]
async fn a_stalled_list_is_repeated_on_another_connection() {
    let object = r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"3"}}"#;
    let line = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let begun = format!("{head}{:x}\r\n{line}\r\n", line.len());
    let no_stream = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned();
    let begun_page = format!("{no_stream}{head}9\r\n{{\"items\":\r\n");
    let rows = [
        ("a stream of initial objects stops", begun),
        ("a page is not answered", no_stream),
        ("a page stops", begun_page),
    ];
    for (what, answers) in rows {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Some(format!("http://{}", listener.local_addr().unwrap()));
        let server_task = tokio::spawn(async move {
            let (mut silent, _) = listener.accept().await.unwrap();
            // The response to each request is what comes up to the next head; then nothing comes any more.
            let mut last = Instant::now();
            for answer in answers.split_inclusive("content-length: 0\r\n\r\n") {
                let _ = silent.read(&mut [0; 4096]).await.unwrap();
                last = Instant::now();
                silent.write_all(answer.as_bytes()).await.unwrap();
            }
            let _another = listener.accept().await.unwrap();
            drop(silent);
            (last, Instant::now())
        });
        let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
        let resource = resource();
        let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
        let came = async {
            let mut looks = interval(Duration::from_millis(5));
            while !resource.state.is_relisting() {
                looks.tick().await;
            }
            pause();
            let stopped = Instant::now();
            let (last, requested_again) = server_task.await.unwrap();
            (requested_again - last, requested_again - stopped)
        };
        let (given, waited) = tokio::select! {
            biased;
            came = came => came,
            () = follow(&connection, &resource, &mut feed, ListWatchOptions::default()) => panic!("the source still serves the resource"),
        };
        resume();
        assert!(waited <= Duration::from_secs(8), "{what}: the first wait and a pause, not {waited:?}");
        assert!(given >= Duration::from_secs(5), "{what}: it was given time to go on, not only {given:?}");
    }
}
