//! What the end of a task means, and which tasks each command starts.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tower::service_fn;

use super::client_authorities;
use super::poll_keeper::PollKeeper;
use super::tasks::{OnEnd, Task, Tasks};

/// A task that panics at once.
fn broken(name: &'static str, on_end: OnEnd) -> Task {
    Task::new(name, on_end, async { panic!("broken") })
}

#[tokio::test]
async fn the_end_of_a_task_ends_the_command_as_it_says() {
    let running = || Task::new("source", OnEnd::Fail, pending());
    let done = || Task::new("server", OnEnd::Finish, async { tokio::task::yield_now().await });
    for (tasks, expected) in [
        (vec![running(), done()], None),
        (vec![running(), broken("server", OnEnd::Finish)], Some("server")),
        (
            vec![running(), broken("controllers", OnEnd::Fail), Task::new("server", OnEnd::Finish, pending())],
            Some("controllers"),
        ),
        (
            vec![Task::new("source", OnEnd::Fail, ready(())), Task::new("server", OnEnd::Finish, pending())],
            Some("source"),
        ),
        (
            vec![
                running(),
                broken("metrics", OnEnd::Continue),
                Task::new("status", OnEnd::Continue, ready(())),
                done(),
            ],
            None,
        ),
    ] {
        let names: Vec<&str> = tasks.iter().map(Task::name).collect();
        let ended = Tasks::start(tasks).ended().await;
        let error = ended.err().map(|error| error.to_string());
        assert_eq!(error.is_some(), expected.is_some(), "{names:?}: {error:?}");
        assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{names:?}");
    }
}

#[tokio::test]
async fn an_aborted_task_has_ended() {
    let (kept_open, ended) = tokio::sync::oneshot::channel::<()>();
    let controllers = Task::new("controllers", OnEnd::Fail, async move {
        let _held = kept_open;
        pending::<()>().await;
    });
    let tasks = Tasks::start([controllers]);
    tasks.abort("controllers");
    assert!(ended.await.is_err());
}

/// What the API server answers to a list.
#[derive(Clone, Copy)]
enum Answers {
    Nothing,
    Forbidden,
    TheConfigMap,
}

fn config_map(authority: &str) -> Value {
    let metadata =
        json!({"name": "extension-apiserver-authentication", "namespace": "kube-system", "resourceVersion": "7"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"client-ca-file": authority}})
}

#[tokio::test(start_paused = true)]
async fn the_config_map_is_followed_through_outages() {
    let (answers, requests) = (Arc::new(Mutex::new(Answers::Nothing)), Arc::new(AtomicUsize::new(0)));
    let (events, received) = mpsc::channel::<Value>(8);
    let received = Arc::new(tokio::sync::Mutex::new(received));
    let (answer, counted) = (answers.clone(), requests.clone());
    let service = service_fn(move |request: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let query = request.uri().query().unwrap_or_default().to_owned();
        assert!(query.contains("fieldSelector=metadata.name%3Dextension-apiserver-authentication"), "{query}");
        let (answer, received) = (*answer.lock().unwrap(), received.clone());
        async move {
            let whole = |code: u16, body: Value| {
                Ok(Response::builder().status(code).body(Full::from(body.to_string()).boxed_unsync()).unwrap())
            };
            if query.contains("watch=true") {
                let lines = stream::unfold(received, |received| async move {
                    let event = received.lock().await.recv().await?;
                    Some((Ok(Frame::data(Bytes::from(format!("{event}\n")))), received))
                });
                return Ok(Response::new(StreamBody::new(lines).boxed_unsync()));
            }
            let forbidden =
                json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
            match answer {
                Answers::Nothing => Err(std::io::Error::other("not reached")),
                Answers::Forbidden => whole(403, forbidden),
                Answers::TheConfigMap => {
                    let metadata = json!({"resourceVersion": "7"});
                    let items = json!([config_map("one")]);
                    whole(
                        200,
                        json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items}),
                    )
                }
            }
        }
    });
    let (taken, mut data) = mpsc::channel::<String>(8);
    let follow = client_authorities::follow(Client::new(service, "default"), move |data| {
        taken.try_send(data["client-ca-file"].as_str().unwrap().to_owned()).unwrap();
    });
    let followed = async {
        let minutes = Duration::from_secs(120);
        assert!(timeout(minutes, data.recv()).await.is_err(), "nothing is known while nothing answers");
        *answers.lock().unwrap() = Answers::Forbidden;
        assert!(timeout(minutes, data.recv()).await.is_err());
        *answers.lock().unwrap() = Answers::TheConfigMap;
        assert_eq!(timeout(minutes, data.recv()).await.unwrap().unwrap(), "one");
        events.send(json!({"type": "DELETED", "object": config_map("one")})).await.unwrap();
        sleep(Duration::from_secs(5)).await;
        assert!(data.try_recv().is_err(), "what was known stays known");
        events.send(json!({"type": "ADDED", "object": config_map("other")})).await.unwrap();
        assert_eq!(timeout(minutes, data.recv()).await.unwrap().unwrap(), "other");
    };
    tokio::select! {
        () = follow => unreachable!("it is followed for as long as the program runs"),
        () = followed => {}
    }
    let requests = requests.load(Ordering::Relaxed);
    // In four minutes. Pauses grow to half a minute.
    assert!(requests < 40, "no request without a pause: {requests}");
}

/// A thread of the runtime that is busy stops no request, as long as another one is idle.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the tasks end with the runtime, and a thread is busy for a bounded time"
)]
fn sockets_are_polled_while_a_thread_is_busy() {
    use std::io::{Read, Write};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    const SOON: Duration = Duration::from_secs(20);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _keeper = PollKeeper::start(runtime.handle().clone()).unwrap();
    let listener = runtime.block_on(async { tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap() });
    let address = listener.local_addr().unwrap();
    // Answers each byte. A 1 keeps the thread busy until `is_over` is set.
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    runtime.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let over = over.clone();
            tokio::spawn(async move {
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    let begun = std::time::Instant::now();
                    while byte[0] == 1 && !over.load(Ordering::SeqCst) && begun.elapsed() < SOON {
                        std::thread::yield_now();
                    }
                    stream.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    for _ in 0..10 {
        is_over.store(false, Ordering::SeqCst);
        let mut busy = std::net::TcpStream::connect(address).unwrap();
        let mut other = std::net::TcpStream::connect(address).unwrap();
        let mut byte = [0];
        for stream in [&mut busy, &mut other] {
            stream.set_read_timeout(Some(SOON / 2)).unwrap();
            stream.write_all(&[0]).unwrap();
            stream.read_exact(&mut byte).unwrap();
        }
        busy.write_all(&[1]).unwrap();
        other.write_all(&[0]).unwrap();
        let answered = other.read_exact(&mut byte);
        is_over.store(true, Ordering::SeqCst);
        answered.expect("the other thread must answer meanwhile");
        busy.read_exact(&mut byte).unwrap();
    }
}
