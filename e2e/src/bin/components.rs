//! Builds the real components of the test bed and the client programs; see `e2e::components` and `e2e::clients`.
//!
//! With `--versions` kube-apiserver of the other Kubernetes versions instead; see `e2e::versions`.

use std::process::ExitCode;

use anyhow::Result;
use e2e::components::{self, Built};
use e2e::{clients, versions};

type Build = fn() -> Result<Built>;

#[expect(clippy::print_stderr, reason = "a command speaks on its standard error")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let builds: &[(&str, Build)] = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => &[("components", components::build), ("clients", clients::build)],
        ["--versions"] => &[("kube-apiserver of other versions", versions::build)],
        _ => {
            eprintln!("usage: components [--versions]");
            return ExitCode::FAILURE;
        }
    };
    for (what, build) in builds {
        match build() {
            Ok(Built::UpToDate) => {}
            Ok(Built::Anew(elapsed)) => eprintln!("e2e {what} built in {:.0} s", elapsed.as_secs_f64()),
            Err(error) => {
                eprintln!("{what}: {error:#}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
