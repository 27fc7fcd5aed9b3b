//! The program: passes its arguments to `cli::run`, returns the exit code, and sets the allocator.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// A background thread of jemalloc returns freed pages to the system after ten seconds. glibc would keep most of the
/// memory of a burst of requests.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    fieldcache::cli::run(std::env::args_os()).into()
}
