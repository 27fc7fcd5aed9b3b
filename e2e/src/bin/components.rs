//! Builds the real components of the test bed and the client programs; see `e2e::components` and `e2e::clients`.

use std::process::ExitCode;

use e2e::clients;
use e2e::components::{self, Built};

#[expect(clippy::print_stderr, reason = "a command speaks on its standard error")]
fn main() -> ExitCode {
    for (what, build) in [("components", components::build as fn() -> _), ("clients", clients::build)] {
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
