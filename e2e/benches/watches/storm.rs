//! fieldcache dies and is started again with 5,000 clients, each with a TLS connection: how long until all receive events again.

use std::time::Duration;

use anyhow::Result;
use e2e::generator::source::now;
use e2e::http::Protocol;
use e2e::{accounting, statistics};

use super::clients::Clients;
use super::held::Secured;
use crate::options::Options;
use crate::own::Offered;
use crate::report::{Line, Report, number};

/// How many there are.
const CLIENTS: u64 = 5_000;

/// Within this time all should be back.
const ALLOWED: f64 = 10.0;

/// After which they are given up.
const DEADLINE: Duration = Duration::from_secs(180);

/// Deaths.
const ROUNDS: usize = 3;

/// What one death came to, in seconds since it.
struct Back {
    serving: f64,
    open: f64,
    live: f64,
    cpu: f64,
    lists: u64,
}

/// The line of the row.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    if !offered.tls {
        report.add(Line::skipped("reconnect", "TLS", "not offered by this build (--tls-cert-file)"));
        return Ok(());
    }
    let mut bed = Secured::start(options, offered, CLIENTS).await?;
    let clients = Clients::start(&bed.own.fieldcache, &bed.authority, Protocol::Http2, &bed.corpus, CLIENTS).await?;
    let (_, mut listed) = clients.since("open", 0, DEADLINE).await?;
    let mut backs = Vec::new();
    for _ in 0..options.rounds.min(ROUNDS) {
        accounting::settled(bed.own.process(), Duration::from_secs(1), Duration::from_secs(60)).await?;
        let died = now();
        let seconds = |moment: u128| moment.saturating_sub(died) as f64 / 1e9;
        bed.own.fieldcache.process().kill();
        bed.own.fieldcache.start_again().await?;
        let serving = seconds(now());
        let (open, lists) = clients.since("open", died, DEADLINE).await?;
        // One update of every object: a client whose watch has ended would not receive it.
        bed.generator.burst(CLIENTS).await?;
        let (live, _) = clients.since("live", died, DEADLINE).await?;
        let cpu = accounting::cpu(bed.own.process())?.as_secs_f64();
        backs.push(Back { serving, open: seconds(open), live: seconds(live), cpu, lists: lists - listed });
        listed = lists;
    }
    let median = |figure: fn(&Back) -> f64| statistics::median(&backs.iter().map(figure).collect::<Vec<_>>());
    let live = median(|back| back.live);
    let line = Line::new(
        "reconnect",
        format!("{} TLS clients after a death and a new start", number(CLIENTS as f64)),
        format!(
            "all receive events again after {live:.1} s: it serves after {:.1} s, all watch after {:.1} s, with {} lists; {:.1} s of CPU",
            median(|back| back.serving),
            median(|back| back.open),
            number(median(|back| back.lists as f64)),
            median(|back| back.cpu)
        ),
    );
    let all: Vec<f64> = backs.iter().map(|back| back.live).collect();
    report.add(line.target("≤ 10 s", live <= ALLOWED).figure("liveSeconds", all));
    Ok(())
}
