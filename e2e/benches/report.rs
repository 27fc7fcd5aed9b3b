//! The table: Markdown for people, JSON for programs.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::options::{Options, ROWS};

/// What came of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is reached.
    Reached,
    /// It is not.
    Missed,
    /// There is none: the figure is printed.
    None,
    /// This build or this run cannot measure it.
    Skipped,
    /// The measurement failed.
    Failed,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Reached => "yes",
            Verdict::Missed => "**no**",
            Verdict::None => "",
            Verdict::Skipped => "skipped",
            Verdict::Failed => "**failed**",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// The row's name, as `--rows` takes it.
    row: &'static str,
    /// Which of its figures.
    what: String,
    /// The figures for people.
    measured: String,
    /// The target for people; empty when there is none.
    target: String,
    verdict: Verdict,
    /// The figures for programs.
    figures: Map<String, Value>,
}

impl Line {
    /// A figure without a target.
    pub(crate) fn new(row: &'static str, what: impl Into<String>, measured: impl Into<String>) -> Line {
        Line {
            row,
            what: what.into(),
            measured: measured.into(),
            target: String::new(),
            verdict: Verdict::None,
            figures: Map::new(),
        }
    }

    /// Something that could not be measured, and why.
    pub(crate) fn skipped(row: &'static str, what: impl Into<String>, why: impl Into<String>) -> Line {
        Line { verdict: Verdict::Skipped, ..Line::new(row, what, why) }
    }

    /// A measurement that failed.
    pub(crate) fn failed(row: &'static str, error: &anyhow::Error) -> Line {
        let text = format!("{error:#}").replace(['\n', '|'], " ");
        Line { verdict: Verdict::Failed, ..Line::new(row, "all", text.chars().take(600).collect::<String>()) }
    }

    /// With a target, and whether it is reached.
    pub(crate) fn target(mut self, target: &str, is_reached: bool) -> Line {
        target.clone_into(&mut self.target);
        self.verdict = if is_reached { Verdict::Reached } else { Verdict::Missed };
        self
    }

    /// With a figure for programs.
    pub(crate) fn figure(mut self, name: &str, value: impl Into<Value>) -> Line {
        self.figures.insert(name.to_owned(), value.into());
        self
    }

    /// With several.
    pub(crate) fn figures(mut self, figures: Map<String, Value>) -> Line {
        self.figures.extend(figures);
        self
    }

    /// For the progress on the terminal.
    pub(crate) fn shown(&self) -> String {
        let verdict = match self.verdict {
            Verdict::None => String::new(),
            verdict => format!(" [{}: {}]", self.target, verdict.text()),
        };
        format!("{}, {}: {}{verdict}", self.row, self.what, self.measured)
    }
}

/// Everything one run found.
#[derive(Debug)]
pub(crate) struct Report {
    options: Options,
    configuration: Vec<String>,
    lines: Vec<Line>,
}

impl Report {
    /// Nothing found yet.
    pub(crate) fn new(options: &Options, configuration: Vec<String>) -> Report {
        Report { options: options.clone(), configuration, lines: Vec::new() }
    }

    /// One more line, said on the terminal at once.
    #[expect(clippy::print_stderr, reason = "progress of minutes")]
    pub(crate) fn add(&mut self, line: Line) {
        eprintln!("  {}", line.shown());
        self.lines.push(line);
    }

    /// A line for a row that could not be measured; the rows after it are measured all the same.
    pub(crate) fn unless_failed(&mut self, row: &'static str, measured: Result<()>) {
        if let Err(error) = measured {
            self.add(Line::failed(row, &error));
        }
    }

    /// Something to name below the table's title.
    pub(crate) fn note(&mut self, note: String) {
        self.configuration.push(note);
    }

    /// Whether something could not be measured that should have been.
    pub(crate) fn has_failed(&self) -> bool {
        self.lines.iter().any(|line| line.verdict == Verdict::Failed)
    }

    /// Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("# fieldcache: bench\n\n");
        for line in &self.configuration {
            let _ = writeln!(text, "- {line}");
        }
        if self.options.quick {
            text.push_str("- a quick run: a trial of the bench, no measurement\n");
        }
        text.push_str("\n| row | what | measured | target | reached |\n|---|---|---|---|---|\n");
        for line in self.in_order() {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                line.row,
                line.what,
                line.measured,
                line.target,
                line.verdict.text()
            );
        }
        text.push_str(
            "\nCPU is what the operating system books on the server's process, user and system; \"ratio\" is kube-apiserver's divided by \
             fieldcache's; latencies are the client's, p50 / p99. Where functions cost: `bench --hold REQUEST` keeps one row's \
             requests coming and prints the process number for `perf record -F 499 --call-graph dwarf,16384 -p PID -- sleep 10` and \
             `perf report --no-children`.\n",
        );
        text
    }

    fn in_order(&self) -> Vec<&Line> {
        let place = |line: &&Line| ROWS.iter().position(|row| *row == line.row);
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(place);
        lines
    }

    /// Writes both forms below `target/bench` and says where; a run of some rows does not overwrite one of all.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        let folder = PathBuf::from("target").join("bench");
        fs::create_dir_all(&folder)?;
        let name = match (self.options.quick, self.options.rows.len() == ROWS.len()) {
            (true, _) => "quick",
            (false, true) => "bench",
            (false, false) => "some-rows",
        };
        let path = folder.join(format!("{name}.md"));
        fs::write(&path, self.table())?;
        let lines: Vec<Value> = self
            .in_order()
            .iter()
            .map(|line| {
                let verdict = match line.verdict {
                    Verdict::Reached => json!(true),
                    Verdict::Missed => json!(false),
                    Verdict::None => Value::Null,
                    Verdict::Skipped => json!("skipped"),
                    Verdict::Failed => json!("failed"),
                };
                json!({
                    "row": line.row, "what": line.what, "measured": line.measured, "target": line.target, "reached": verdict,
                    "figures": line.figures,
                })
            })
            .collect();
        let document = json!({
            "configuration": self.configuration, "objects": self.options.objects, "rounds": self.options.rounds,
            "quick": self.options.quick, "lines": lines,
        });
        fs::write(folder.join(format!("{name}.json")), format!("{document:#}\n"))?;
        Ok(path)
    }
}

/// Bytes for people.
pub(crate) fn megabytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes < 10.0 { format!("{megabytes:.1} MB") } else { format!("{megabytes:.0} MB") }
}

/// A time for people.
pub(crate) fn duration(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        micros if micros >= 1e6 => format!("{:.2} s", micros / 1e6),
        micros if micros >= 1e4 => format!("{:.0} ms", micros / 1e3),
        micros if micros >= 1e3 => format!("{:.1} ms", micros / 1e3),
        micros => format!("{micros:.0} µs"),
    }
}

/// A number for people, with as many digits as it deserves.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => {
            let digits = format!("{value:.0}");
            let mut grouped = String::new();
            for (index, digit) in digits.chars().enumerate() {
                if index > 0 && (digits.len() - index).is_multiple_of(3) {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Microseconds for programs.
pub(crate) fn micros(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e8).round() / 100.0
}

/// A quotient whose divisor may be too small to have been seen.
pub(crate) fn ratio(dividend: f64, divisor: f64) -> f64 {
    dividend / divisor.max(1e-9)
}

/// The processor, how many of it, the memory, the kernel and how busy the machine is with other work.
pub(crate) fn machine() -> String {
    let line = |path: &str, name: &str| {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = line("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = line("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{cores} cores, {model}, {memory} of memory, Linux {}", kernel.trim())
}

/// The load average of the last minute, which shows whether figures were disturbed.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
