//! CPU with many cached resources and nothing to do.

use std::time::Duration;

use anyhow::Result;
use e2e::accounting;
use e2e::corpus::shirts::Shirts;
use e2e::generator::child::Child;
use e2e::generator::documents::small_plural;
use e2e::generator::{Beside, Corpus, SMALL_GROUP};
use tokio::time::interval;

use super::options::Options;
use super::own::{Offered, Own, generator_program};
use super::report::{Line, Report, megabytes};

/// The row of this file.
pub(crate) const ROWS: [&str; 1] = ["idle"];

/// Cached resources beside the corpus.
pub(crate) const RESOURCES: usize = 200;

/// How long nothing is done.
const LASTING: Duration = Duration::from_secs(20);

/// Starts a generator with many small resources and fieldcache with all of them cached for good.
pub(crate) async fn start(offered: Offered) -> Result<(Child, Own)> {
    let corpus = Corpus::Shirts(Shirts { count: 1_000, ..Shirts::default() });
    let generator = Child::start(&generator_program()?, &corpus, Beside { small: RESOURCES, copies: 0 }).await?;
    let mut source = vec!["--server".to_owned(), generator.endpoint().base().to_owned()];
    for index in 0..RESOURCES {
        source.extend(["--resource".to_owned(), format!("{}.v1.{SMALL_GROUP}", small_plural(index))]);
    }
    let own = Own::start(&source, offered, None).await?;
    for index in 0..RESOURCES {
        own.synced(&format!("/apis/{SMALL_GROUP}/v1/{}", small_plural(index)), 5).await?;
    }
    Ok((generator, own))
}

/// The row.
pub(crate) async fn run(_options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let (_generator, own) = start(offered).await?;
    accounting::settled(own.process(), Duration::from_secs(1), Duration::from_secs(60)).await?;
    let mut end = interval(LASTING);
    end.tick().await;
    let before = accounting::cpu(own.process())?;
    end.tick().await;
    let used = accounting::cpu(own.process())?.saturating_sub(before);
    let share = used.as_secs_f64() / LASTING.as_secs_f64() * 100.0;
    let line = Line::new(
        "idle",
        format!("{RESOURCES} cached resources"),
        format!(
            "{share:.2} % of a core over {} s, {} in memory",
            LASTING.as_secs(),
            megabytes(accounting::resident_bytes(own.process())?)
        ),
    );
    report.add(line.target("≤ 1 % of a core", share <= 1.0).figure("percentOfACore", share));
    Ok(())
}
