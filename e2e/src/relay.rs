//! A place to connect to that stands still while what is behind it changes: bytes go through untouched, TLS and all.
//!
//! For clients that move between servers without noticing. It knows no HTTP: whoever wants to change an answer needs
//! something else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A listening relay; dropping it cuts everything.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    behind: watch::Sender<String>,
    connections: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Listens at a free loopback port, with this `host:port` behind it.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(behind: &str) -> Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("binding a relay")?;
        let address = listener.local_addr().context("asking for the relay's address")?;
        let (behind, following) = watch::channel(behind.to_owned());
        let connections = Arc::new(AtomicU64::new(0));
        let counted = connections.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(connect(client, following.clone()));
            }
        });
        Ok(Relay { address, behind, connections, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts another server behind it and cuts all connections.
    pub fn move_to(&self, behind: &str) {
        self.behind.send_replace(behind.to_owned());
    }

    /// How many connections were made to it.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Joins a client with what is behind the relay now, until one of them ends or something else is behind it.
async fn connect(mut client: TcpStream, mut behind: watch::Receiver<String>) {
    let address = behind.borrow_and_update().clone();
    let Ok(mut server) = TcpStream::connect(&address).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = behind.changed() => {}
    }
}
