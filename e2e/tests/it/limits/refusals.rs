//! Connections, watches of a user, large lists: each reached, each reported, and a place that is given back is taken again.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::http::{Protocol, Request};
use e2e::kubectl::Kubectl;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::users::User;
use super::{SOON, Stage, is_limit_status};

#[tokio::test]
async fn an_excess_connection_is_rejected_and_open_ones_continue() -> Result<()> {
    let stage = Box::pin(Stage::set(&["--max-connections", "2"])).await?;
    let client = stage.fieldcache.client();
    let mut watch = client.watch(&format!("{}?watch=1", stage.collection)).await?;
    let second = stage.fieldcache.client();
    let mut other = second.watch(&format!("{}?watch=1", stage.collection)).await?;

    // A rejected client that sends nothing for two seconds receives nothing.
    let request = async || stage.fieldcache.client().send(Request::get("/version")).await;
    let refused = eventually("a connection too many gets the message", SOON, request).await?;
    ensure!(refused.status == 429, "{}: {}", refused.status, refused.text());
    ensure!(refused.header("retry-after") == Some("1"), "{:?}", refused.headers);
    is_limit_status(
        &refused.json()?,
        "ConnectionLimit",
        "--max-connections",
        &["too many connections", "--max-connections=2"],
    )?;

    // kubectl shows it to its user; it tries again for a while first, so the words are looked for, not the time.
    let kubectl = Kubectl::with_server(stage.fieldcache.address())?;
    let reported = eventually("kubectl gets the message", SOON, async || {
        let reported = kubectl.run(&["get", "--raw", "/version"]).await?;
        ensure!(reported.exit_code == 0 || reported.stderr.contains("--max-connections=2"), "{}", reported.stderr);
        Ok(reported)
    })
    .await?;
    ensure!(reported.exit_code != 0, "it is answered: {}", reported.stdout);

    // HTTP/2 has frames of its own for it: Go prints the text of GOAWAY.
    eventually("HTTP/2 gets the message", SOON, async || {
        let mut raw = TcpStream::connect(stage.host()?).await?;
        raw.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        let mut frames = Vec::new();
        timeout(SOON, raw.read_to_end(&mut frames)).await.context("it is closed")??;
        ensure!(String::from_utf8_lossy(&frames).ends_with("--max-connections=2"), "{frames:?}");
        Ok(())
    })
    .await?;
    let two = stage.fieldcache.endpoint().clone().speaking(Protocol::Http2).client();
    ensure!(two.get("/version").await.is_err(), "a client of HTTP/2 is not answered");

    stage.create("blue", "blue").await?;
    for watch in [&mut watch, &mut other] {
        let event = watch.event(SOON).await?;
        ensure!(event["object"]["metadata"]["name"] == "blue", "{event}");
    }
    drop((watch, second));
    let again = stage.fieldcache.endpoint().clone();
    eventually("a place is free again", SOON, async || again.client().get("/version").await?.success().map(|_| ()))
        .await?;
    ensure!(stage.figure("refused_total", "connections").await? >= 4.0, "refusals are counted");
    ensure!(stage.figure("maximum", "connections").await? == 2.0, "so is the maximum");
    Ok(())
}

#[tokio::test]
async fn a_user_has_so_many_watches_and_kubectl_shows_why() -> Result<()> {
    let stage = Box::pin(Stage::set(&["--max-watches-per-user", "3"])).await?;
    let path = format!("{}?watch=1", stage.collection);
    let (one, other) = (User::at("127.0.0.1", stage.host()?).await?, User::at("127.0.0.2", stage.host()?).await?);
    let mut open = Vec::new();
    for _ in 0..3 {
        let response = one.open(&path).await?;
        ensure!(response.status() == 200, "{}", response.status());
        open.push(response);
    }
    let fourth = timeout(SOON, one.get(&path)).await.context("the fourth watch is not refused")?;
    let (code, headers, body) = fourth?;
    ensure!(code == 429 && !headers.contains_key("retry-after"), "{code} {headers:?}");
    let words = ["user \"127.0.0.1\" has 3 open", "--max-watches-per-user=3"];
    let status: Value = serde_json::from_slice(&body)?;
    is_limit_status(&status, "WatchesPerUserLimit", "--max-watches-per-user", &words)?;
    ensure!(status["reason"] == "TooManyRequests", "{status}");
    let resource = format!("shirts.v1.{}", stage.group);
    let kubectl = Kubectl::with_server(stage.fieldcache.address())?;
    let reported = kubectl.run(&["get", &resource, "--watch-only"]).await?;
    ensure!(reported.exit_code != 0 && reported.stderr.contains(words[1]), "{}", reported.stderr);
    let (code, _, _) = one.get(&stage.collection).await?;
    ensure!(code == 200, "a list is no watch");
    ensure!(other.open(&path).await?.status() == 200, "another user has watches of his own");

    drop(open.pop());
    let freed = eventually("one is closed", SOON, async || {
        let response = one.open(&path).await?;
        ensure!(response.status() == 200, "{}", response.status());
        Ok(response)
    });
    let _fourth = freed.await?;
    ensure!(stage.figure("used", "watches-per-user").await? == 3.0, "the busiest user's are shown");
    ensure!(stage.figure("refused_total", "watches-per-user").await? >= 2.0, "refusals are counted");
    Ok(())
}

#[tokio::test]
async fn large_lists_wait_for_their_turn_and_are_refused_behind_a_bounded_queue() -> Result<()> {
    for (options, reason, option) in [
        (["--max-lists", "1"], "ListLimit", "--max-lists"),
        (["--max-list-bytes", "8Mi"], "ListBytesLimit", "--max-list-bytes"),
    ] {
        let stage = Box::pin(Stage::set(&options)).await?;
        stage.fill().await?;
        stage.create("small", "blue").await?;
        let client = stage.fieldcache.client();
        eventually("the copy has it all", SOON, async || {
            let small = client.get(&format!("{}/small", stage.collection)).await?;
            small.success().map(|_| ())
        })
        .await?;
        let user = User::at("127.0.0.1", stage.host()?).await?;
        // Not read, so it stays under way.
        let open_watch = user.open(&stage.collection).await?;
        ensure!(open_watch.status() == 200, "{}", open_watch.status());
        ensure!(stage.figure("used", "lists").await? == 1.0, "one is under way");
        ensure!(stage.figure("used", "list-bytes").await? > f64::from(4 << 20), "it is a large one");
        let (code, headers, body) = user.get(&stage.collection).await?;
        ensure!(code == 429 && headers.get("retry-after").is_some_and(|value| value == "1"), "{code} {headers:?}");
        let words = ["please try again later", "user \"127.0.0.1\"", option];
        is_limit_status(&serde_json::from_slice(&body)?, reason, option, &words)?;

        let selected = format!("{}?fieldSelector=spec.color%3Dblue", stage.collection);
        for path in [&format!("{}/small", stage.collection), &selected, &format!("{}?limit=1", stage.collection)] {
            let (code, _, _) = user.get(path).await?;
            ensure!(code == 200, "{path} passes by: {code}");
        }
        ensure!(user.open(&format!("{}?watch=1", stage.collection)).await?.status() == 200, "so does a watch");
        drop(open_watch);
        let (code, _, body) = user.get(&stage.collection).await?;
        ensure!(code == 200 && body.len() > 4 << 20, "{code}: {} bytes", body.len());
        let name = if reason == "ListLimit" { "lists" } else { "list-bytes" };
        ensure!(stage.figure("refused_total", name).await? == 1.0, "refusals are counted by their limit");
    }
    Ok(())
}
