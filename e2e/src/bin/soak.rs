//! `make soak`: many random schedules of faults. Beside them run a long time of changes with real clients, and an
//! operator that is observed while it caches a quiet cluster. Then the hostile suite runs, with more random cases than
//! `make test` has.
//!
//! It reports its progress, in the end the faults with a verdict, and its exit code says the same.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to a person")]

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::faults::campaign::{Summary, heavy, light, reach, schedule};
use e2e::faults::churn::{Churn, endure};
use e2e::faults::run::Company;
use e2e::faults::schedule::{Reach, Schedule};
use e2e::hostile::{self, Family};
use e2e::{calm, quiet};
use tokio::task::LocalSet;

const USAGE: &str = "\
usage: soak [--schedules N] [--minutes M] [--quiet M] [--seed SEED] [--at-once N] [--hostile N] [--hostile-seed SEED] [--family NAME] [--case TEXT]

  --schedules N   random schedules of faults, 200 if nothing is said
  --minutes M     changes with real clients beside them, and an operator that keeps what changes, 30 if nothing is said
  --quiet M       every resource of a quiet cluster is cached, as long as --minutes if nothing is said; alone it runs only that
  --seed SEED     that of the first schedule, instead of a new one; alone it runs only that one
  --at-once N     schedules at a time that leave the control plane alone, 4 if nothing is said
  --hostile N     the hostile suite with N random cases in each family, 50 if nothing is said; 0 omits the suite
  --hostile-seed SEED  the seed of its first random case, instead of a new one
  --family NAME   only this family of the hostile suite, and nothing else of the soak
  --case TEXT     only its cases whose name contains this text";

/// Schedules in a portion, after which what came of them so far is reported.
const PORTION: usize = 20;

/// ConfigMaps of the quiet cluster: more than a page of a list.
const CONFIG_MAPS: usize = 600;

struct Options {
    schedules: usize,
    minutes: u64,
    quiet: u64,
    seed: u64,
    at_once: usize,
    hostile: usize,
    hostile_seed: u64,
    family: Option<String>,
    case: Option<String>,
}

impl Options {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Options> {
        let (mut schedules, mut minutes, mut quiet, mut seed, mut at_once) = (None, None, None, None, 4);
        let (mut hostile, mut hostile_seed, mut family, mut case) = (None, None, None, None);
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            if let "--family" | "--case" = argument.as_str() {
                let text = arguments.next().with_context(|| format!("{argument} needs a text"))?;
                *(if argument == "--family" { &mut family } else { &mut case }) = Some(text);
                continue;
            }
            let mut number = || -> Result<u64> {
                let text = arguments.next().with_context(|| format!("{argument} needs a number"))?;
                text.parse().with_context(|| format!("{argument} {text}"))
            };
            match argument.as_str() {
                "--schedules" => schedules = Some(usize::try_from(number()?)?),
                "--minutes" => minutes = Some(number()?),
                "--quiet" => quiet = Some(number()?),
                "--seed" => seed = Some(number()?),
                "--at-once" => at_once = usize::try_from(number()?)?.max(1),
                "--hostile" => hostile = Some(usize::try_from(number()?)?),
                "--hostile-seed" => hostile_seed = Some(number()?),
                "-h" | "--help" => bail!(USAGE),
                other => bail!("unknown argument {other}\n{USAGE}"),
            }
        }
        let is_one = seed.is_some();
        let is_quiet = quiet.is_some() && schedules.is_none() && minutes.is_none() && hostile.is_none() && !is_one;
        let is_part = family.is_some() || case.is_some() || is_quiet;
        let minutes = minutes.unwrap_or(if is_one || is_part { 0 } else { 30 });
        Ok(Options {
            schedules: schedules.unwrap_or(if is_part {
                0
            } else if is_one {
                1
            } else {
                200
            }),
            minutes,
            quiet: quiet.unwrap_or(minutes),
            seed: seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 16),
            at_once,
            hostile: hostile.unwrap_or(if is_one || is_quiet { 0 } else { 50 }),
            hostile_seed: hostile_seed.unwrap_or_else(|| RandomState::new().hash_one(1) >> 16),
            family,
            case,
        })
    }
}

fn main() -> ExitCode {
    // One thread: clients and writers are not `Send`, and the work is done by other processes.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("soak: {error}");
            return ExitCode::FAILURE;
        }
    };
    let options = Options::read(std::env::args().skip(1));
    let ended = options.and_then(|options| LocalSet::new().block_on(&runtime, Box::pin(run(options))));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<()> {
    let started = Instant::now();
    let say = |what: &str| println!("{:6.1} s: {what}", started.elapsed().as_secs_f64());
    say(&format!(
        "{} schedules from seed {}, and {} minutes of changes",
        options.schedules, options.seed, options.minutes
    ));
    let churn = async {
        if options.minutes == 0 {
            return Ok(None);
        }
        let length = Duration::from_secs(options.minutes * 60);
        let churn = Churn { length, settling: length / 6, seed: options.seed };
        endure(churn, &say).await.map(Some)
    };
    let quiet = async {
        match options.minutes {
            0 => Ok(None),
            minutes => quiet::listen(Duration::from_secs(minutes * 60)).await.map(Some),
        }
    };
    let calm = async {
        match options.quiet {
            0 => Ok(None),
            minutes => {
                let length = Duration::from_secs(minutes * 60);
                let settings = calm::Settings { length, config_maps: CONFIG_MAPS, ..calm::Settings::default() };
                Box::pin(calm::observe(&settings)).await.map(Some)
            }
        }
    };
    // They have nothing in common but the machine, which has more to do for it.
    let (summary, endurance, quiet, calm) = tokio::join!(campaign(&options, &say), churn, quiet, calm);
    let summary = summary?;
    say(&format!("recoveries by kind of fault:\n{}", summary.by_kind()));
    let mut wrong = summary.wrong.clone();
    let mut endured = String::new();
    // What became of the schedules is reported even if this could not be run.
    match endurance {
        Ok(None) => {}
        Ok(Some(endurance)) => {
            endured = format!("\n{} minutes of changes: {endurance}", options.minutes);
            wrong.extend(endurance.wrong);
        }
        Err(error) => wrong.push(format!("{} minutes of changes were not possible: {error:#}", options.minutes)),
    }
    match quiet {
        Ok(None) => {}
        Ok(Some(quiet)) => {
            endured.push_str(&format!("\nan operator: {quiet}"));
            wrong.extend(quiet.wrong());
        }
        Err(error) => wrong.push(format!("an operator could not be listened to: {error:#}")),
    }
    match calm {
        Ok(None) => {}
        Ok(Some(calm)) => {
            endured.push_str(&format!("\na quiet cluster: {calm}"));
            wrong.extend(calm.wrong());
        }
        Err(error) => wrong.push(format!("a quiet cluster could not be cached: {error:#}")),
    }
    say(&format!("{summary}{endured}"));
    // Alone: it measures memory, and it loads the machine.
    match Box::pin(attacks(&options, &say)).await {
        Ok(faults) => wrong.extend(faults),
        Err(error) => wrong.push(format!("the hostile suite could not be run: {error:#}")),
    }
    ensure!(wrong.is_empty(), "VERDICT: failed, {} things went wrong:\n{}", wrong.len(), wrong.join("\n"));
    say("VERDICT: passed, nothing went wrong");
    Ok(())
}

/// Runs the hostile suite and returns its faults.
async fn attacks(options: &Options, say: &dyn Fn(&str)) -> Result<Vec<String>> {
    if options.hostile == 0 {
        return Ok(Vec::new());
    }
    let seeds: Vec<u64> = (options.hostile_seed..).take(options.hostile).collect();
    say(&format!(
        "the hostile suite with {} random cases in each family from seed {}",
        seeds.len(),
        options.hostile_seed
    ));
    let mut faults = Vec::new();
    for family in Family::ALL {
        if options.family.as_deref().is_none_or(|name| name == family.name()) {
            faults.extend(Box::pin(hostile::run(family, &seeds, options.case.as_deref(), say)).await?.faults);
        }
    }
    Ok(faults)
}

/// Runs the schedules, a portion after the other.
async fn campaign(options: &Options, say: &dyn Fn(&str)) -> Result<Summary> {
    let seeds: Vec<u64> = (options.seed..).take(options.schedules).collect();
    let mut summary = Summary::default();
    for portion in seeds.chunks(PORTION) {
        let schedules_with = |wanted: Reach| -> Vec<Schedule> {
            portion.iter().filter(|seed| reach(**seed) == wanted).map(|seed| schedule(*seed)).collect()
        };
        // Of the schedules none beside those that stop the control plane: what they measure is their own.
        for (reach, schedules) in
            [(Reach::Light, schedules_with(Reach::Light)), (Reach::Heavy, schedules_with(Reach::Heavy))]
        {
            let came = match reach {
                _ if schedules.is_empty() => continue,
                Reach::Light => light(schedules, options.at_once, Company::default(), say).await?,
                Reach::Heavy => heavy(schedules, Company::default(), say).await?,
            };
            summary = summary.and(came);
        }
        say(&format!("so far: {summary}"));
    }
    Ok(summary)
}
