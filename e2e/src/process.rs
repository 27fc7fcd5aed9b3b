//! A process that cannot outlive the test that started it, with its output in files.
//!
//! A test can end in ways that run no destructor: a signal, a shared value in a static, an abort. So a process is
//! started by a small shell that leaves a watcher behind and then becomes the program (`exec`). The watcher reads a
//! pipe whose other end belongs to this process. Each line on it is a signal to forward. The end of the pipe, which the
//! operating system causes however this process ends, makes the watcher kill the program. The obvious alternative,
//! Linux' parent-death signal, needs unsafe code, which this workspace forbids. The program runs in a process group of
//! its own, so that an interrupt typed in a terminal reaches the test first.
//!
//! Output goes to files instead of pipes: no task has to drain them, and the tail is there when something fails.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::eventually::eventually;

/// `$$` is the number of the shell, which the program takes over.
const GUARD: &str = r#"
exec 3<&0 </dev/null
(
    while read -r order; do
        if [ "$order" = release ]; then exit 0; fi
        kill -s "$order" $$
    done
    kill -s KILL $$
) <&3 >/dev/null 2>&1 &
exec "$@" 3<&-
"#;

/// How much of a log a failure shows.
const TAIL_LINES: usize = 30;

/// What to run.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub arguments: Vec<String>,
    /// Its whole environment: nothing is inherited but `PATH`.
    pub environment: Vec<(String, String)>,
}

impl Invocation {
    /// `program` without arguments.
    #[must_use]
    pub fn new(program: PathBuf) -> Invocation {
        Invocation { program, arguments: Vec::new(), environment: Vec::new() }
    }

    /// With these arguments after those already there.
    #[must_use]
    pub fn arguments<Argument: Into<String>>(mut self, arguments: impl IntoIterator<Item = Argument>) -> Invocation {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With this variable in its environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<String>) -> Invocation {
        self.environment.push((name.to_owned(), value.into()));
        self
    }
}

/// A running program; dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    name: String,
    running: Mutex<Running>,
    stdout: PathBuf,
    stderr: PathBuf,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// The watcher's pipe. Invariant: open for as long as the program shall live.
    orders: Option<ChildStdin>,
}

impl Running {
    fn order(&mut self, order: &str) -> std::io::Result<()> {
        self.orders.as_mut().map_or(Ok(()), |orders| writeln!(orders, "{order}"))
    }
}

impl Process {
    /// Starts it, with its output in `directory/NAME.stdout` and `directory/NAME.stderr`, appended to what is there.
    ///
    /// # Errors
    /// When the program's file is missing or the file system refuses.
    pub fn start(name: &str, invocation: &Invocation, directory: &Path) -> Result<Process> {
        ensure!(invocation.program.exists(), "{name}: there is no program {}", invocation.program.display());
        let stdout = directory.join(format!("{name}.stdout"));
        let stderr = directory.join(format!("{name}.stderr"));
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", GUARD, name])
            .arg(&invocation.program)
            .args(&invocation.arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(invocation.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(append(&stdout)?)
            .stderr(append(&stderr)?)
            .process_group(0);
        let mut child =
            command.spawn().with_context(|| format!("{name}: starting {}", invocation.program.display()))?;
        let orders = child.stdin.take();
        Ok(Process { name: name.to_owned(), running: Mutex::new(Running { child, orders }), stdout, stderr })
    }

    /// The operating system's number of the program itself, for accounting.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.running().child.id()
    }

    /// Everything it wrote to its standard output so far.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn stdout(&self) -> Result<String> {
        read(&self.stdout)
    }

    /// The complete lines of its standard output after the first `read` bytes, to which it adds their length. It is for
    /// a long output that is read often.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn stdout_lines_after(&self, read: &mut u64) -> Result<String> {
        let what = || format!("reading {}", self.stdout.display());
        let mut file = File::open(&self.stdout).with_context(what)?;
        file.seek(SeekFrom::Start(*read)).with_context(what)?;
        let mut lines = Vec::new();
        file.read_to_end(&mut lines).with_context(what)?;
        lines.truncate(lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        *read += lines.len() as u64;
        Ok(String::from_utf8_lossy(&lines).into_owned())
    }

    /// Everything it wrote to its standard error so far.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn stderr(&self) -> Result<String> {
        read(&self.stderr)
    }

    /// The last lines of both outputs, under a title, for an error message.
    #[must_use]
    pub fn tail(&self) -> String {
        let mut text = String::new();
        for path in [&self.stdout, &self.stderr] {
            let content = read(path).unwrap_or_default();
            let lines: Vec<&str> = content.lines().collect();
            if !lines.is_empty() {
                text.push_str(&format!("--- {}: the end of {}\n", self.name, path.display()));
                text.push_str(&lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"));
                text.push('\n');
            }
        }
        text
    }

    /// Its exit code once it has ended (a death by signal N is 128 + N, as shells say it), `None` while it runs.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn exit_code(&self) -> Result<Option<i32>> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.running().child.try_wait().with_context(|| format!("{}: reading its state", self.name))?;
        Ok(status.map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())))
    }

    /// Fails with the tail of its logs when it has ended.
    ///
    /// # Errors
    /// When it no longer runs.
    pub fn ensure_running(&self) -> Result<()> {
        match self.exit_code()? {
            None => Ok(()),
            Some(code) => bail!("{} ended with exit code {code}\n{}", self.name, self.tail()),
        }
    }

    /// Sends it a signal, named as `kill -s` names it: `TERM`, `INT`, `STOP`, `CONT`.
    ///
    /// # Errors
    /// When its watcher is gone.
    pub fn signal(&self, signal: &str) -> Result<()> {
        self.running().order(signal).with_context(|| format!("{}: sending {signal}", self.name))
    }

    /// Waits for its end and returns its exit code.
    ///
    /// # Errors
    /// When it still runs after `deadline`.
    pub async fn ended(&self, deadline: Duration) -> Result<i32> {
        let what = format!("{} ends", self.name);
        eventually(&what, deadline, async || self.exit_code()?.context("it still runs"))
            .await
            .with_context(|| self.tail())
    }

    /// Waits for a complete line on its standard output or error of which `wanted` makes something, and returns that.
    ///
    /// # Errors
    /// When no such line came before `deadline` or before the program's end.
    pub async fn line<Seen>(
        &self,
        what: &str,
        deadline: Duration,
        wanted: impl Fn(&str) -> Option<Seen>,
    ) -> Result<Seen> {
        let found = eventually(what, deadline, async || {
            // Checked before reading, so that what a program wrote just before its end is still seen.
            let ended = self.exit_code()?;
            let outputs = [self.stdout()?, self.stderr()?];
            let complete = outputs.iter().map(|output| output.rsplit_once('\n').map_or("", |(complete, _)| complete));
            match (complete.flat_map(str::lines).find_map(&wanted), ended) {
                (Some(seen), _) => Ok(Ok(seen)),
                (None, Some(code)) => Ok(Err(code)),
                (None, None) => bail!("no such line yet"),
            }
        });
        match found.await.with_context(|| self.tail())? {
            Ok(seen) => Ok(seen),
            Err(code) => bail!("{what}: {} ended with exit code {code}\n{}", self.name, self.tail()),
        }
    }

    /// Kills it and waits until it is gone. Killing what has ended already is no error.
    pub fn kill(&self) {
        let mut running = self.running();
        // Both fail only when the process is gone, which is what is wanted.
        let _ = running.child.kill();
        let _ = running.child.wait();
        // The number may be given to another process from now on: the watcher must not kill it.
        let _ = running.order("release");
    }

    /// Gives it up without killing it, as the sudden end of this program would: its watcher kills it then.
    ///
    /// For testing just that.
    pub fn abandon(self) {
        let mut this = std::mem::ManuallyDrop::new(self);
        let running = this.running.get_mut().unwrap_or_else(PoisonError::into_inner);
        running.orders = None;
    }

    /// A poisoned lock is no obstacle: both fields stay usable whatever panicked.
    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn append(path: &Path) -> Result<File> {
    File::options().create(true).append(true).open(path).with_context(|| format!("opening {}", path.display()))
}

/// Logs may break off within a character while they are written.
fn read(path: &Path) -> Result<String> {
    let content = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}
