//! Arguments -> `cli::run` -> exit code, and the allocator of the program; nothing else.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// A background thread returns freed pages to the system after ten seconds. glibc keeps most of what a burst of requests took.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    fieldcache::cli::run(std::env::args_os()).into()
}
