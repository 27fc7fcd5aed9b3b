//! Exit codes (0: done, 1: the result is negative, 2: error), and how errors are printed.

#![expect(clippy::print_stderr, reason = "this is where errors reach a person")]

use std::io;
use std::process::ExitCode;

use super::output::printable;
use super::program::Program;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: the command succeeded, and its result is negative.
    No,
    /// 2: the command failed.
    Failed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Done => ExitCode::SUCCESS,
            Exit::No => ExitCode::from(1),
            Exit::Failed => ExitCode::from(2),
        }
    }
}

/// Prints an error with its causes, and returns [`Exit::Failed`]. A closed pipe is success: the reader, such as `head`,
/// needs no more.
pub fn failed(error: &anyhow::Error, program: Program) -> Exit {
    let closed_pipe = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe);
    if closed_pipe {
        return Exit::Done;
    }
    eprintln!("{}: {}", program.name(), printable(&program.in_text(&format!("{error:#}"))));
    Exit::Failed
}

/// Prints a message of clap. Returns [`Exit::Done`] for help and version, otherwise [`Exit::Failed`].
pub fn usage(error: &clap::Error) -> Exit {
    let is_result = !error.use_stderr();
    // As in `failed`: the reader needs no more.
    if error.print().is_err() {
        return Exit::Done;
    }
    if is_result { Exit::Done } else { Exit::Failed }
}

/// Prints a note to standard error, so that standard output has the result alone.
pub fn note(text: &str) {
    eprintln!("note: {}", printable(text));
}
