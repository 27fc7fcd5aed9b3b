//! What a selectable field costs per event: fieldcache's extractor beside kube-apiserver's eager evaluation.
//!
//! KEP-4358 has the API server evaluate every selectable field of an object at each of its events. Here both sides read
//! the same stored shirts with 0, 1, 2, 4 and 8 fields, in alternating rounds. The result is the CPU time of each
//! process. The two columns are not the same work, and each side's figure is said to be what it is:
//!
//! - kube-apiserver: its own `GetAttrs`. The Go command `selectable-fields-bench` runs it on objects that are already
//!   decoded, because its watch cache holds those. The share of the garbage collector is included. Decoding is a line
//!   of its own under the table.
//! - fieldcache: `Extractor::extract`, from the bytes of the wire to the record that a store takes. It includes reading the bytes,
//!   the key, the version and the labels, and freeing all that again; fieldcache decodes nothing else on this way.
//!
//! The difference per field is what adding fields costs, on either side without the rest. Before the clock starts, both
//! sides' texts of every object and field are compared, and the run fails if one differs. The difference in the CPU of
//! a whole kube-apiserver with 0 and with 8 fields is left out. It would be this figure with the noise of everything
//! else that an update costs.
//!
//! Map: [`upstream`] runs the Go command, [`own`] the extractor, [`report`] prints and writes `target/bench/kep.md` and `.json`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to a person")]

mod own;
mod report;
mod upstream;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use e2e::corpus::shirts::Shirts;

use own::Own;
use report::Report;
use upstream::Upstream;

const USAGE: &str = "usage: kep-bench [--objects N] [--rounds N] [--millis N]";

/// The numbers of fields that are measured. The Go command has the same list; 8 is the most that a version may have.
const FIELD_COUNTS: [usize; 5] = [0, 1, 2, 4, 8];

/// The fields in the order in which they are added: of each type, at two depths, before and behind the longest text.
const PATHS: [&str; 8] = [
    ".spec.color",
    ".spec.serial",
    ".spec.order",
    ".spec.size",
    ".spec.quantity",
    ".spec.branded",
    ".spec.material.fabric",
    ".status.phase",
];

/// What one object costs with a number of fields, in nanoseconds of CPU.
type Nanoseconds = f64;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kep-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut shirts = Shirts { count: 2_000, ..Shirts::default() };
    let mut rounds = 7_u32;
    let mut millis = 500;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a value; {USAGE}"))?;
        match name.as_str() {
            "--objects" => shirts.count = value.parse().with_context(|| format!("--objects {value}"))?,
            "--rounds" => rounds = value.parse().with_context(|| format!("--rounds {value}"))?,
            "--millis" => millis = value.parse().with_context(|| format!("--millis {value}"))?,
            _ => bail!("unknown option {name}; {USAGE}"),
        }
    }
    ensure!(shirts.count > 0 && rounds > 0, "at least one object and one round are needed; {USAGE}");
    let duration = Duration::from_millis(millis);
    let objects: Vec<Bytes> = (0..shirts.count).map(|index| Bytes::from(shirts.stored(index).to_string())).collect();
    let own = FIELD_COUNTS.map(|count| Own::new(&shirts.definition(), &PATHS[..count]));
    let own = own.into_iter().collect::<Result<Vec<Own>>>()?;
    let upstream = Upstream::new(&objects)?;
    for (count, own) in FIELD_COUNTS.into_iter().zip(&own) {
        let theirs = upstream.attributes(&PATHS[..count])?;
        own.compare(&objects, &theirs).with_context(|| format!("with {count} fields"))?;
    }
    eprintln!("both sides read the same texts from {} objects", objects.len());

    let mut report = Report::new(&objects, rounds);
    for round in 1..=rounds {
        eprint!("\rround {round} of {rounds}");
        report.add_upstream(upstream.measure(&PATHS, duration)?);
        let mut costs = Vec::with_capacity(FIELD_COUNTS.len());
        for own in &own {
            costs.push(own.measure(&objects, duration)?);
        }
        report.add_own(&costs);
    }
    eprintln!("\r\x1b[K");
    println!("{}", report.table());
    let folder = report.write()?;
    println!("\nwritten to {0}/kep.md and {0}/kep.json", folder.display());
    Ok(())
}
