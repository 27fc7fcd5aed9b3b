//! Lists of the suites that others wrote: what is chosen, and what is left out. `make conformance` runs the suites.

use anyhow::{Result, ensure};
use e2e::conformance::choice::{Choice, List};

/// A list that begins with what it may not hold is an error, and so is a test that a list does not know.
#[test]
fn a_list_decides_by_its_first_pattern() -> Result<()> {
    let list = List::read("[left out: no node]\nnode: *\n[short]\na: One\n[rejected: writes]\na: T*o\n[run]\na: *\n")?;
    let names = ["node: One", "a: One", "a: Two", "a: Three"];
    ensure!(list.run(&names, false)? == ["a: One", "a: Two", "a: Three"]);
    ensure!(list.run(&names, true)? == ["a: One"]);
    ensure!(list.choice("a: Two") == Some(&Choice::Rejected("writes".to_owned())));
    ensure!(list.short_packages(&["node", "a"]) == ["a"]);
    ensure!(list.run(&["b: One"], false).is_err(), "a new test has to be chosen or left out");
    ensure!(List::read("a: One\n[run]\n").is_err_and(|error| error.to_string().contains("line 1")));
    Ok(())
}
