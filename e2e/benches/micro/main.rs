//! `make micro`: what one step costs, in nanoseconds, without sockets and without a control plane.
//!
//! Objects are those of the corpora. The figures are for people who change a step and want to see the effect. The
//! targets are rows of `make bench`, which measures the whole. Nothing here asserts a time. Only what is public is
//! used, so that a step can be rewritten without its benchmark.
//!
//! Map:
//!
//! - [`samples`]: the objects and a store of them
//! - [`splitting`]: lines, watch lines and pages; [`extracting`]: object bytes to records
//! - [`storing`]: one update; [`routing`]: one change to its subscriptions
//! - [`planning`]: selections; [`encoding`]: responses; [`placing`]: where a Pod can run; [`walking`]: what an object owns

mod encoding;
mod extracting;
mod placing;
mod planning;
mod routing;
mod samples;
mod splitting;
mod storing;
mod walking;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    splitting::measure(&mut criterion);
    extracting::measure(&mut criterion);
    storing::measure(&mut criterion);
    routing::measure(&mut criterion);
    planning::measure(&mut criterion);
    encoding::measure(&mut criterion);
    placing::measure(&mut criterion);
    walking::measure(&mut criterion);
    criterion.final_summary();
}
