//! A relay between a client and a server that counts the bytes that the client receives. It does not look at them: TLS passes through.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Bytes that are read at once.
const PIECE: usize = 256 * 1024;

/// A listening relay. Dropped, it accepts no more connections; open ones last as long as their ends.
pub(super) struct Relay {
    address: SocketAddr,
    received: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Starts a relay to the server at `https://HOST:PORT`.
    pub(super) async fn start(server: &str) -> Result<Relay> {
        let server = server.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.context("binding a relay")?;
        let address = listener.local_addr()?;
        let received = Arc::new(AtomicU64::new(0));
        let counted = received.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, counted) = (server.clone(), counted.clone());
                tokio::spawn(async move {
                    let Ok(upstream) = TcpStream::connect(&server).await else { return };
                    let _ended = carry(client, upstream, &counted).await;
                });
            }
        });
        Ok(Relay { address, received, accepting })
    }

    /// Where clients connect.
    pub(super) fn base(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Bytes that clients have received so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(client: TcpStream, server: TcpStream, received: &AtomicU64) -> std::io::Result<()> {
    for socket in [&client, &server] {
        socket.set_nodelay(true)?;
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let down = async {
        let mut piece = vec![0; PIECE];
        loop {
            let read = from_server.read(&mut piece).await?;
            if read == 0 {
                return to_client.shutdown().await;
            }
            received.fetch_add(read as u64, Ordering::Relaxed);
            to_client.write_all(&piece[..read]).await?;
        }
    };
    let up = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    tokio::try_join!(down, up).map(|_| ())
}
