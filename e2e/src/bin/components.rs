//! Builds the real components of the test bed, the client programs, and the parts of other projects' suites that the
//! tests run. See `e2e::components`, `e2e::clients` and `e2e::conformance`.
//!
//! `--versions` and perhaps some of `1.31`, `1.32`, `1.33` and `1.37`: kube-apiserver of these or all of them instead; see
//! `e2e::versions`.

use std::process::ExitCode;

use anyhow::Result;
use e2e::components::{self, Built};
use e2e::conformance::selection;
use e2e::{clients, versions};

#[expect(clippy::print_stderr, reason = "a command speaks on its standard error")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let built: Vec<(&str, Result<Built>)> = match arguments.split_first() {
        None => vec![
            ("components", components::build()),
            ("clients", clients::build()),
            ("suites", selection::build_tested()),
        ],
        Some((option, names)) if option == "--versions" => {
            vec![("kube-apiserver of other versions", versions::build(names))]
        }
        Some(_) => {
            eprintln!("usage: components [--versions [VERSION...]]");
            return ExitCode::FAILURE;
        }
    };
    let mut code = ExitCode::SUCCESS;
    for (what, built) in built {
        match built {
            Ok(Built::UpToDate) => {}
            Ok(Built::Now(elapsed)) => eprintln!("e2e {what} built in {:.0} s", elapsed.as_secs_f64()),
            Err(error) => {
                eprintln!("{what}: {error:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
