//! Arguments -> `cli::run` -> exit code; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    fieldcache::cli::run(std::env::args_os()).into()
}
