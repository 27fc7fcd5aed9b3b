//! What an idle watch holds: memory of fieldcache, on shared connections and with one of its own.

use std::time::Duration;

use anyhow::Result;
use e2e::accounting;
use e2e::certificates::Authority;
use e2e::corpus::shirts::Shirts;
use e2e::generator::child::Child;
use e2e::generator::{Beside, Corpus};
use e2e::http::Protocol;
use e2e::run_directory::RunDirectory;

use super::clients::Clients;
use super::crowd::{Crowd, STREAMS};
use super::of_one;
use crate::options::Options;
use crate::own::{Offered, Own, Tls, generator_program};
use crate::report::{Line, Report, megabytes, number};

/// Watches on shared connections.
const SHARED: u64 = 5_000;

/// Watches with a connection each.
const ALONE: u64 = 2_000;

/// Watches of a first crowd, after which the process has what it needs once.
const FIRST: u64 = 200;

/// What a watch may hold, in bytes.
const ALLOWED_SHARED: f64 = 6_000.0;
const ALLOWED_ALONE: f64 = 45_000.0;

/// A generator of a corpus, and a fieldcache that serves it over TLS.
pub(crate) struct Secured {
    /// The source.
    pub(crate) generator: Child,
    /// The reader.
    pub(crate) own: Own,
    /// What is in both.
    pub(crate) corpus: Shirts,
    /// The authority that signed its certificate, a file.
    pub(crate) authority: std::path::PathBuf,
    _directory: RunDirectory,
}

impl Secured {
    /// Starts both and waits until fieldcache has everything.
    pub(crate) async fn start(options: &Options, offered: Offered, count: u64) -> Result<Secured> {
        let corpus = Shirts { count, ..options.shirts() };
        let generator = Child::start(&generator_program()?, &Corpus::Shirts(corpus.clone()), Beside::default()).await?;
        let directory = RunDirectory::create("bench-tls")?;
        let authority = Authority::create("bench")?;
        let identity = authority.server("fieldcache", &[])?;
        let tls = Tls {
            certificate: &directory.write("tls.crt", identity.certificate)?,
            key: &directory.write("tls.key", identity.key)?,
            authority: &authority.certificate(),
        };
        let source = ["--server".to_owned(), generator.endpoint().base().to_owned()];
        let own = Own::start(&source, offered, Some(tls)).await?;
        own.synced(&corpus.everywhere(), corpus.count).await?;
        accounting::settled(own.process(), Duration::from_millis(500), Duration::from_secs(30)).await?;
        let authority = directory.write("ca.crt", authority.certificate())?;
        Ok(Secured { generator, own, corpus, authority, _directory: directory })
    }
}

/// All lines of the row.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let corpus = Shirts { count: SHARED, ..options.shirts() };
    let generator = Child::start(&generator_program()?, &Corpus::Shirts(corpus.clone()), Beside::default()).await?;
    let source = ["--server".to_owned(), generator.endpoint().base().to_owned()];
    let own = Own::start(&source, offered, None).await?;
    own.synced(&corpus.everywhere(), corpus.count).await?;
    let version = own.version(&corpus.everywhere()).await?;
    let open = async |count: u64| {
        let wanted = (0..count).map(|index| of_one(&corpus, index, version)).collect();
        Crowd::open(own.fieldcache.endpoint(), wanted, STREAMS).await
    };
    drop(open(FIRST).await?);
    let before = accounting::resting_bytes(own.process()).await?;
    let crowd = open(SHARED).await?;
    let after = accounting::resting_bytes(own.process()).await?;
    drop(crowd);
    report.add(held("on shared HTTP/2 connections", SHARED, [before, after], Some(ALLOWED_SHARED)));
    drop(own);
    if !offered.tls {
        report.add(Line::skipped("watch-memory", "TLS", "not offered by this build (--tls-cert-file)"));
        return Ok(());
    }
    for (protocol, name, allowed) in
        [(Protocol::Http2, "HTTP/2", Some(ALLOWED_ALONE)), (Protocol::Http1, "HTTP/1.1", None)]
    {
        let Secured { own, corpus, authority, generator: _generator, _directory } =
            Secured::start(options, offered, ALONE).await?;
        drop(Clients::start(&own.fieldcache, &authority, protocol, &corpus, FIRST).await?);
        let before = accounting::resting_bytes(own.process()).await?;
        let clients = Clients::start(&own.fieldcache, &authority, protocol, &corpus, ALONE).await?;
        let after = accounting::resting_bytes(own.process()).await?;
        drop(clients);
        report.add(held(&format!("each with a TLS connection of its own, {name}"), ALONE, [before, after], allowed));
    }
    Ok(())
}

fn held(what: &str, watches: u64, [before, after]: [u64; 2], allowed: Option<f64>) -> Line {
    let each = after.saturating_sub(before) as f64 / watches as f64;
    let line = Line::new(
        "watch-memory",
        format!("{} idle watches {what}", number(watches as f64)),
        format!("{:.1} KB each ({} before, {} after)", each / 1e3, megabytes(before), megabytes(after)),
    );
    let line = line.figure("bytesAWatch", each);
    match allowed {
        Some(allowed) => line.target(&format!("≤ {:.0} KB", allowed / 1e3), each <= allowed),
        None => line,
    }
}
