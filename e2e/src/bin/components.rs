//! Builds the real components of the test bed; see `e2e::components`.

use std::process::ExitCode;

use e2e::components::{Built, build};

#[expect(clippy::print_stderr, reason = "a command speaks on its standard error")]
fn main() -> ExitCode {
    match build() {
        Ok(Built::UpToDate) => ExitCode::SUCCESS,
        Ok(Built::Anew(elapsed)) => {
            eprintln!("e2e components built in {:.0} s", elapsed.as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("components: {error:#}");
            ExitCode::FAILURE
        }
    }
}
