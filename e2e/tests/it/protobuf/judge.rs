//! The judge: a process that speaks in frames, four bytes of length and as many bytes.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use e2e::components::{Component, locate};

/// An object that upstream's fuzzers filled.
pub(super) struct Generated<'g> {
    pub(super) api_version: &'g str,
    pub(super) kind: &'g str,
    pub(super) json: &'g [u8],
    /// What upstream writes of what the JSON says.
    pub(super) expected: &'g [u8],
    /// What upstream writes of the object that the JSON was made of.
    pub(super) itself: &'g [u8],
}

/// Shows so many objects of every kind to `see`.
pub(super) fn generate(seed: u64, count: usize, mut see: impl FnMut(&Generated<'_>) -> Result<()>) -> Result<()> {
    let arguments = ["generate".to_owned(), seed.to_string(), count.to_string()];
    let (mut process, questions, mut objects) = start(&arguments)?;
    drop(questions);
    while let Some(api_version) = frame(&mut objects)? {
        let mut next = || frame(&mut objects)?.context("an object is five frames");
        let [kind, json, expected, itself] = [next()?, next()?, next()?, next()?];
        let (api_version, kind) = (std::str::from_utf8(&api_version)?, std::str::from_utf8(&kind)?);
        see(&Generated { api_version, kind, json: &json, expected: &expected, itself: &itself })?;
    }
    let status = process.wait()?;
    ensure!(status.success(), "protobuf-judge ended with {status}; standard error says why");
    Ok(())
}

/// A judge that responds.
pub(super) struct Judge {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Judge {
    pub(super) fn start() -> Result<Judge> {
        let (process, questions, answers) = start(&["answer".to_owned()])?;
        Ok(Judge { process, questions: Some(questions), answers })
    }

    /// The protobuf of an object.
    pub(super) fn object(&mut self, json: &[u8]) -> Result<Vec<u8>> {
        self.convert(b'o', json)
    }

    /// The frame of a watch event: `type` and `object`.
    pub(super) fn event(&mut self, json: &[u8]) -> Result<Vec<u8>> {
        self.convert(b'e', json)
    }

    /// The JSON of an object in protobuf.
    pub(super) fn decoded(&mut self, protobuf: &[u8]) -> Result<Vec<u8>> {
        self.convert(b'd', protobuf)
    }

    fn convert(&mut self, letter: u8, what: &[u8]) -> Result<Vec<u8>> {
        let questions = self.questions.as_mut().context("a judge must have an input")?;
        questions.write_all(&u32::try_from(what.len() + 1)?.to_be_bytes())?;
        questions.write_all(&[letter])?;
        questions.write_all(what)?;
        questions.flush()?;
        let answer = frame(&mut self.answers)?.context("protobuf-judge ended; standard error says why")?;
        match answer.split_first() {
            Some((b'+', answer)) => Ok(answer.to_vec()),
            Some((_, error)) => bail!("upstream: {}", String::from_utf8_lossy(error)),
            None => bail!("protobuf-judge answered nothing"),
        }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.questions = None;
        let _ = self.process.wait();
    }
}

fn start(arguments: &[String]) -> Result<(Child, ChildStdin, BufReader<ChildStdout>)> {
    let mut command = Command::new(locate(Component::ProtobufJudge)?);
    command.args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut process = command.spawn().context("starting protobuf-judge")?;
    let questions = process.stdin.take().context("a piped standard input must be there")?;
    let answers = process.stdout.take().context("a piped standard output must be there")?;
    Ok((process, questions, BufReader::with_capacity(1 << 20, answers)))
}

fn frame(from: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error).context("listening to protobuf-judge"),
    }
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut bytes).context("listening to protobuf-judge")?;
    Ok(Some(bytes))
}
