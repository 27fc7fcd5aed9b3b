//! The command line: options, output and exit codes, with one file for each command.
//!
//! [`arguments`] are the commands and their options, [`server_arguments`] those of `serve` and `operator`,
//! [`shared_arguments`] and [`limits`] those of several commands. [`program`] is the name by which the program was
//! started, [`exit`] how a command ends, and [`output`] prints tables, JSON and YAML. [`paths`] are the paths of objects
//! and lists at a server. [`crate::runtime`] runs what serves.

pub mod advise;
pub mod arguments;
pub mod check;
pub mod crds;
pub mod exit;
pub mod fields;
pub mod get;
pub mod kubeconfig;
pub mod limits;
pub mod openapi;
pub mod operator;
pub mod output;
mod paths;
pub mod place;
pub mod program;
pub mod serve;
pub mod server_arguments;
pub mod shared_arguments;
#[cfg(test)]
mod tests;
pub mod tree;

use std::ffi::OsString;

use clap::FromArgMatches;

use crate::flow_control::seats::EVENT_INTERVAL;
use crate::runtime::poll_keeper::PollKeeper;

use arguments::{Arguments, Command};
use exit::Exit;
use program::Program;

/// Runs a command line, whose first argument is the name of the program, and returns how the process ends. Under the
/// name `kubectl-fieldcache`, the program is a kubectl plugin with the same commands.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = Program::from_name(arguments.first().map(OsString::as_os_str));
    let parsed = program.command().try_get_matches_from(arguments);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().event_interval(EVENT_INTERVAL).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(&anyhow::Error::new(error).context("cannot start the runtime"), program),
    };
    // Makes an idle worker look at the sockets, so that one busy worker does not stop all requests.
    let keeper = match PollKeeper::start(runtime.handle().clone()) {
        Ok(keeper) => keeper,
        Err(error) => return exit::failed(&anyhow::Error::new(error).context("cannot start a thread"), program),
    };
    let result = match arguments.command {
        Command::Serve(arguments) => runtime.block_on(serve::run(*arguments)),
        Command::Check(arguments) => check::run(&arguments),
        Command::Fields(arguments) => runtime.block_on(fields::run(arguments)),
        Command::Openapi(arguments) => runtime.block_on(openapi::run(arguments)),
        Command::Operator(arguments) => runtime.block_on(operator::run(arguments)),
        Command::Get(arguments) => runtime.block_on(get::run(*arguments)),
        Command::Kubeconfig(arguments) => runtime.block_on(kubeconfig::run(arguments)),
        Command::Advise(arguments) => runtime.block_on(advise::run(arguments)),
        Command::Place(arguments) => runtime.block_on(place::run(*arguments)),
        Command::Tree(arguments) => runtime.block_on(tree::run(arguments)),
        Command::Crds(arguments) => crds::run(&arguments),
    };
    // Syncs and watches may still run; the command does not wait for them.
    drop(keeper);
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit,
        Err(error) => exit::failed(&error, program),
    }
}
