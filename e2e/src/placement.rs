//! The judge of placement: the plugins of kube-scheduler in the Go program `placement-judge`.
//!
//! One process answers many questions, a line each.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::components::{Component, locate};

/// A running judge; it ends with this value.
#[derive(Debug)]
pub struct Judge {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Judge {
    /// Starts one.
    ///
    /// # Errors
    /// When the program has not been built.
    pub fn start() -> Result<Judge> {
        let mut command = Command::new(locate(Component::PlacementJudge)?);
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().context("starting placement-judge")?;
        let questions = process.stdin.take();
        let answers = process.stdout.take().context("a piped standard output must be there")?;
        Ok(Judge { process, questions, answers: BufReader::new(answers) })
    }

    /// The verdicts on the pods of a question, in their order.
    ///
    /// # Errors
    /// When the judge ended, or said something else.
    pub fn ask(&mut self, question: &Value) -> Result<Vec<Value>> {
        let questions = self.questions.as_mut().context("a judge must have an input")?;
        // Documents in one line: serde_json writes none by itself.
        writeln!(questions, "{question}").context("asking placement-judge")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("listening to placement-judge")?;
        ensure!(!line.is_empty(), "placement-judge ended; standard error says why");
        serde_json::from_str(&line).context("placement-judge printed something else")
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.questions = None;
        let _ = self.process.wait();
    }
}
