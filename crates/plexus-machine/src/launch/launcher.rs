//! The launcher program, and the sandbox levels that work on this machine.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plexus_kit::{Environment, env};
use serde::{Deserialize, Serialize};

use super::{COMMAND, Launch, Sandbox};
use crate::policy::{FileRules, Level, PathPattern, Policy, SandboxRules};

const BWRAP: &str = "bwrap";
/// Exists on every system on which jobs run.
const SHELL: &str = "/bin/sh";
/// The timeout for setting up a trial sandbox.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The maximum number of bytes of a trial's error output.
const MAX_STDERR: u64 = 300;

/// The sandbox level that actually applies to commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    None,
    Landlock,
    Bubblewrap,
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Bubblewrap => "bubblewrap",
        })
    }
}

/// The reason a level does not work on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingLevel {
    pub level: SandboxLevel,
    pub because: String,
}

/// The level required by a policy does not work on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy of this machine requires the sandbox `{}`, which does not work on this machine: {}", .0.level, .0.because)]
pub struct SandboxUnavailable(pub MissingLevel);

/// Cheap to clone; all clones share the results of trials.
#[derive(Debug, Clone)]
pub struct Launcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    program: PathBuf,
    /// The path of `bwrap`, if it is installed.
    bwrap: Option<PathBuf>,
    trial_results: Mutex<HashMap<(SandboxLevel, bool), Result<(), String>>>,
}

impl Launcher {
    #[must_use]
    pub fn new(program: PathBuf, environment: &Environment) -> Self {
        let path = environment.get(env::PATH).unwrap_or_default();
        let bwrap = std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(BWRAP))
            .find(|program| program.is_file());
        Self(Arc::new(Inner { program, bwrap, trial_results: Mutex::default() }))
    }

    #[must_use]
    pub fn program(&self) -> &Path {
        &self.0.program
    }

    /// The program and arguments that start a command. Its environment must be [`super::packed`].
    ///
    /// # Errors
    /// If a path in it cannot be serialized.
    pub fn command_line(&self, launch: &Launch) -> io::Result<Vec<OsString>> {
        command_line(&self.0.program, launch)
    }

    /// The same for the running program, even if the file at its path was replaced.
    pub(super) fn own_command_line(launch: &Launch) -> io::Result<Vec<OsString>> {
        command_line(Path::new("/proc/self/exe"), launch)
    }

    /// The sandbox level under these rules.
    ///
    /// # Errors
    /// If the required level does not work on this machine. No command may run then.
    pub fn sandbox_level(&self, rules: SandboxRules) -> Result<SandboxLevel, SandboxUnavailable> {
        let works = |level| self.works(level, rules.network);
        let required = |level| {
            works(level).map_or_else(
                |because| Err(SandboxUnavailable(MissingLevel { level, because })),
                |()| Ok(level),
            )
        };
        match rules.level {
            Level::None => Ok(SandboxLevel::None),
            Level::Landlock => required(SandboxLevel::Landlock),
            Level::Bubblewrap => required(SandboxLevel::Bubblewrap),
            Level::Auto => Ok([SandboxLevel::Bubblewrap, SandboxLevel::Landlock]
                .into_iter()
                .find(|level| works(*level).is_ok())
                .unwrap_or(SandboxLevel::None)),
        }
    }

    /// The levels that do not work on this machine, strongest first.
    #[must_use]
    pub fn missing_levels(&self, network: bool) -> Vec<MissingLevel> {
        let levels = [SandboxLevel::Bubblewrap, SandboxLevel::Landlock].into_iter();
        levels
            .filter_map(|level| Some(MissingLevel { level, because: self.works(level, network).err()? }))
            .collect()
    }

    /// The sandbox for a command; `None` if it runs without one.
    ///
    /// # Errors
    /// As [`Self::level`].
    pub fn sandbox(
        &self,
        policy: &Policy,
        data_dir: &Path,
        cwd: &Path,
    ) -> Result<Option<Sandbox>, SandboxUnavailable> {
        let level = self.sandbox_level(policy.sandbox)?;
        let mut files = policy.files.clone();
        // Include the real path, even if the node was given another one.
        files.deny.extend(fs_err::canonicalize(data_dir).ok().map(PathPattern::real));
        Ok(self.sandbox_at(level, files, policy.sandbox.network, cwd))
    }

    fn sandbox_at(
        &self,
        level: SandboxLevel,
        files: FileRules,
        network: bool,
        cwd: &Path,
    ) -> Option<Sandbox> {
        match level {
            SandboxLevel::None => None,
            SandboxLevel::Landlock => Some(Sandbox::Landlock { files, network, own: None }),
            SandboxLevel::Bubblewrap => {
                let program = self.0.bwrap.clone().unwrap_or_else(|| BWRAP.into());
                Some(Sandbox::Bubblewrap { files, network, program, cwd: cwd.to_owned(), own: None })
            }
        }
    }

    /// Whether a level works on this machine; tried once and cached.
    fn works(&self, level: SandboxLevel, network: bool) -> Result<(), String> {
        if !cfg!(target_os = "linux") {
            return Err("it requires Linux".to_owned());
        }
        if level == SandboxLevel::Bubblewrap && self.0.bwrap.is_none() {
            return Err("the program bwrap is not on the node's PATH".to_owned());
        }
        let mut trial_results = self.0.trial_results.lock().unwrap_or_else(PoisonError::into_inner);
        trial_results.entry((level, network)).or_insert_with(|| self.attempt(level, network)).clone()
    }

    fn attempt(&self, level: SandboxLevel, network: bool) -> Result<(), String> {
        let everything = vec![PathPattern::real(PathBuf::from("/"))];
        let files =
            FileRules { read: everything, write: Vec::new(), read_only: Vec::new(), deny: Vec::new() };
        let sandbox = self.sandbox_at(level, files, network, Path::new("/"));
        let argv = [SHELL, "-c", ":"].map(OsString::from).to_vec();
        let words = self.command_line(&Launch { argv, sandbox, ..Launch::default() });
        let error_output = words.and_then(|words| trial(&words)).map_err(|error| error.to_string())?;
        if error_output.is_empty() { Ok(()) } else { Err(error_output) }
    }
}

fn command_line(program: &Path, launch: &Launch) -> io::Result<Vec<OsString>> {
    let spec = serde_json::to_string(launch)?;
    let own = [program.as_os_str().to_owned(), COMMAND.into(), spec.into()];
    Ok(own.into_iter().chain(launch.argv.iter().cloned()).collect())
}

/// Runs a program and returns its error output; empty on success.
fn trial(words: &[OsString]) -> io::Result<String> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let until = Instant::now() + TRIAL_TIMEOUT;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
            None => {
                child.kill()?;
                child.wait()?;
                return Ok("it did not end in time".to_owned());
            }
        }
    };
    if status.success() {
        return Ok(String::new());
    }
    let mut error_output = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(MAX_STDERR).read_to_end(&mut error_output)?;
    }
    let error_output = String::from_utf8_lossy(&error_output);
    let error_output = error_output.trim().trim_start_matches("plexus: ").trim_start_matches("bwrap: ");
    Ok(if error_output.is_empty() { format!("it ended with {status}") } else { error_output.to_owned() })
}
