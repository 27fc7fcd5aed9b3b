//! Watches whose clients do not read: what the operating system says that they cost, and what happens beyond the bound.

use anyhow::{Result, ensure};
use e2e::accounting::resident_bytes;
use e2e::eventually::eventually;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::{SOON, Stage};

const WATCHES: usize = 150;

/// `--max-unread-bytes` of the test, and what the process may need beside: the allocator's own, buffers of the sockets.
const UNREAD: u64 = 8 << 20;
const BESIDE: u64 = 32 << 20;

/// Opens a watch and never reads from it.
async fn stopped(host: &str, path: &str) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(host.parse()?).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    Ok(stream)
}

#[tokio::test]
async fn watches_that_are_not_read_cost_no_more_than_the_bound() -> Result<()> {
    let stage = Box::pin(Stage::set(&["--max-unread-bytes", "8Mi"])).await?;
    stage.fill().await?;
    let client = stage.fieldcache.client();
    let process = stage.fieldcache.process().id();
    eventually("the copy has it all", SOON, async || {
        let list = client.get(&stage.collection).await?.success()?;
        ensure!(list.text().len() > super::LARGE_COUNT * super::LARGE_TEXT, "not yet");
        Ok(())
    })
    .await?;
    let mut reading = client.watch(&format!("{}?watch=1&fieldSelector=spec.color%3Dblue", stage.collection)).await?;
    let before = resident_bytes(process)?;

    let path = format!("{}?watch=1&resourceVersion=0", stage.collection);
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        watches.push(stopped(stage.host()?, &path).await?);
    }
    eventually("answers end, and what is left is within the bound", SOON, async || {
        let (ended, used) =
            (stage.figure("refused_total", "unread-bytes").await?, stage.figure("used", "unread-bytes").await?);
        ensure!(ended > 20.0 && used > 0.0 && used <= UNREAD as f64, "{ended} ended, {used} bytes are unread");
        Ok(())
    })
    .await?;
    ensure!(stage.figure("maximum", "unread-bytes").await? == UNREAD as f64, "the bound is shown");
    let during = resident_bytes(process)?;
    ensure!(during < before + UNREAD + BESIDE, "{before} bytes became {during}");
    ensure!(stage.fieldcache.process().stderr()?.contains("--max-unread-bytes=8Mi"), "it is in the log");

    stage.create("blue", "blue").await?;
    ensure!(reading.event(SOON).await?["object"]["metadata"]["name"] == "blue", "a watch that is read goes on");
    drop(watches);
    eventually("everything is freed", SOON, async || {
        let used = stage.figure("used", "unread-bytes").await?;
        ensure!(used == 0.0, "{used} bytes are unread");
        Ok(())
    })
    .await
}
