//! A load source for benchmarks, by hand; see `e2e::generator`.

use std::process::ExitCode;

#[expect(clippy::print_stderr, reason = "a command speaks on its standard error")]
#[tokio::main]
async fn main() -> ExitCode {
    match e2e::generator::command::run(std::env::args().skip(1)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generator: {error:#}");
            ExitCode::FAILURE
        }
    }
}
