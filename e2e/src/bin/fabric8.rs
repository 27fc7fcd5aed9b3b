//! `make fabric8`: see `e2e::fabric8`.

#![expect(clippy::print_stdout, reason = "a command speaks to a person")]

use std::time::Instant;

use anyhow::Result;

fn main() -> Result<()> {
    let started = Instant::now();
    let say = |what: &str| println!("{:6.1} s: {what}", started.elapsed().as_secs_f64());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Box::pin(e2e::fabric8::run(&say)))
}
