//! A connection that breaks in the middle of a list; everything else of the state machine is tested beside a real API server.

#![expect(clippy::disallowed_methods, reason = "the server of the test is a task of its own")]

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{interval, timeout};

use super::feed::resource;
use crate::source::cluster::DEFAULT_MAX_LAG;
use crate::source::connection::{ClusterOptions, Connection};
use crate::source::feed::Feed;
use crate::source::list_watch::follow;
use crate::store::HistoryLimits;

#[tokio::test]
async fn a_list_that_breaks_off_is_not_kept_until_the_next_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let (break_off, breaks_off) = oneshot::channel::<()>();
    tokio::spawn(async move {
        // One connection: who comes again finds nobody.
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
        while !resource.live.is_listing() {
            looks.tick().await;
        }
        break_off.send(()).unwrap();
        while resource.live.is_listing() {
            looks.tick().await;
        }
    };
    let ended = timeout(Duration::from_secs(20), async {
        tokio::select! {
            biased;
            () = let_go => {}
            never = follow(&connection, &resource.gvr, &resource.live, &mut feed, DEFAULT_MAX_LAG) => match never {},
        }
    });
    ended.await.expect("what was listed is let go before the next list begins");
    assert_eq!(feed.listed(), 0);
}
