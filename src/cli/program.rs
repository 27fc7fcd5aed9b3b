//! The name of the program: `fieldcache`, or `kubectl fieldcache` when kubectl runs it as a plugin.
//!
//! kubectl finds plugins by the names of files, so the name by which this program was started decides. Only texts
//! differ: help, usage, examples and errors name what users can type. Commands and options are the same.

use std::ffi::OsStr;
use std::path::Path;

use clap::CommandFactory;

use super::arguments::Arguments;

/// The file name that kubectl looks for.
const PLUGIN_FILE: &str = "kubectl-fieldcache";

/// How the program was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// By its own name, or by another one that is not a plugin.
    Itself,
    /// By kubectl, or under the name by which kubectl finds it.
    Plugin,
}

impl Program {
    /// The program by the first argument of the command line: the name or path that it was started with.
    pub fn from_name(first_argument: Option<&OsStr>) -> Program {
        match first_argument.and_then(|path| Path::new(path).file_stem()) {
            Some(name) if name == PLUGIN_FILE => Program::Plugin,
            _ => Program::Itself,
        }
    }

    /// What users type to start it.
    pub fn name(self) -> &'static str {
        match self {
            Program::Itself => "fieldcache",
            Program::Plugin => "kubectl fieldcache",
        }
    }

    /// The command line with this name in its help.
    pub fn command(self) -> clap::Command {
        let command = Arguments::command();
        match self {
            Program::Itself => command,
            Program::Plugin => command.bin_name(self.name()).mut_subcommands(|subcommand| {
                let examples = subcommand.get_after_help().map(|text| self.in_text(&text.to_string()));
                match examples {
                    Some(examples) => subcommand.after_help(examples),
                    None => subcommand,
                }
            }),
        }
    }

    /// A text in which the commands are those that users can type: as a plugin, `fieldcache` becomes `kubectl
    /// fieldcache`. A command is recognized after a backquote, after `<(`, or in a line with an indent of two spaces.
    pub fn in_text(self, text: &str) -> String {
        match self {
            Program::Itself => text.to_owned(),
            Program::Plugin => {
                let mut text = text.to_owned();
                for before in ["`", "\n  ", "<("] {
                    text = text.replace(&format!("{before}fieldcache "), &format!("{before}{} ", self.name()));
                }
                text
            }
        }
    }
}
