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
const TRIAL: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(2);
/// The maximum number of bytes of a trial's error output.
const SAID: u64 = 300;

/// The sandbox level that actually applies to commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    None,
    Landlock,
    Bubblewrap,
}

impl fmt::Display for Held {
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
pub struct Missing {
    pub level: Held,
    pub because: String,
}

/// The level required by a policy does not work on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy of this machine requires the sandbox `{}`, which does not work on this machine: {}", .0.level, .0.because)]
pub struct Unavailable(pub Missing);

/// Cheap to clone; all clones share the results of trials.
#[derive(Debug, Clone)]
pub struct Launcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    program: PathBuf,
    /// The path of `bwrap`, if it is installed.
    bwrap: Option<PathBuf>,
    tried: Mutex<HashMap<(Held, bool), Result<(), String>>>,
}

impl Launcher {
    #[must_use]
    pub fn new(program: PathBuf, environment: &Environment) -> Self {
        let path = environment.get(env::PATH).unwrap_or_default();
        let bwrap = std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(BWRAP))
            .find(|program| program.is_file());
        Self(Arc::new(Inner { program, bwrap, tried: Mutex::default() }))
    }

    #[must_use]
    pub fn program(&self) -> &Path {
        &self.0.program
    }

    /// The program and arguments that start a command. Its environment must be [`super::packed`].
    ///
    /// # Errors
    /// If a path in it cannot be serialized.
    pub fn words(&self, launch: &Launch) -> io::Result<Vec<OsString>> {
        words(&self.0.program, launch)
    }

    /// The same for the running program, even if the file at its path was replaced.
    pub(super) fn own_words(launch: &Launch) -> io::Result<Vec<OsString>> {
        words(Path::new("/proc/self/exe"), launch)
    }

    /// The sandbox level under these rules.
    ///
    /// # Errors
    /// If the required level does not work on this machine. No command may run then.
    pub fn held(&self, rules: SandboxRules) -> Result<Held, Unavailable> {
        let works = |level| self.works(level, rules.network);
        let asked = |level| {
            works(level).map_or_else(|because| Err(Unavailable(Missing { level, because })), |()| Ok(level))
        };
        match rules.level {
            Level::None => Ok(Held::None),
            Level::Landlock => asked(Held::Landlock),
            Level::Bubblewrap => asked(Held::Bubblewrap),
            Level::Auto => Ok([Held::Bubblewrap, Held::Landlock]
                .into_iter()
                .find(|level| works(*level).is_ok())
                .unwrap_or(Held::None)),
        }
    }

    /// The levels that do not work on this machine, strongest first.
    #[must_use]
    pub fn missing(&self, network: bool) -> Vec<Missing> {
        let levels = [Held::Bubblewrap, Held::Landlock].into_iter();
        levels
            .filter_map(|level| Some(Missing { level, because: self.works(level, network).err()? }))
            .collect()
    }

    /// The sandbox for a command; `None` if it runs without one.
    ///
    /// # Errors
    /// As [`Self::held`].
    pub fn sandbox(
        &self,
        policy: &Policy,
        data_dir: &Path,
        cwd: &Path,
    ) -> Result<Option<Sandbox>, Unavailable> {
        let held = self.held(policy.sandbox)?;
        let mut files = policy.files.clone();
        // Include the real path, even if the node was given another one.
        files.deny.extend(fs_err::canonicalize(data_dir).ok().map(PathPattern::real));
        Ok(self.made(held, files, policy.sandbox.network, cwd))
    }

    fn made(&self, held: Held, files: FileRules, network: bool, cwd: &Path) -> Option<Sandbox> {
        match held {
            Held::None => None,
            Held::Landlock => Some(Sandbox::Landlock { files, network, own: None }),
            Held::Bubblewrap => {
                let program = self.0.bwrap.clone().unwrap_or_else(|| BWRAP.into());
                Some(Sandbox::Bubblewrap { files, network, program, cwd: cwd.to_owned(), own: None })
            }
        }
    }

    /// Whether a level works on this machine; tried once and cached.
    fn works(&self, level: Held, network: bool) -> Result<(), String> {
        if !cfg!(target_os = "linux") {
            return Err("it requires Linux".to_owned());
        }
        if level == Held::Bubblewrap && self.0.bwrap.is_none() {
            return Err("the program bwrap is not on the node's PATH".to_owned());
        }
        let mut tried = self.0.tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.entry((level, network)).or_insert_with(|| self.attempt(level, network)).clone()
    }

    fn attempt(&self, level: Held, network: bool) -> Result<(), String> {
        let everything = vec![PathPattern::real(PathBuf::from("/"))];
        let files =
            FileRules { read: everything, write: Vec::new(), read_only: Vec::new(), deny: Vec::new() };
        let sandbox = self.made(level, files, network, Path::new("/"));
        let argv = [SHELL, "-c", ":"].map(OsString::from).to_vec();
        let words = self.words(&Launch { argv, sandbox, ..Launch::default() });
        let said = words.and_then(|words| trial(&words)).map_err(|error| error.to_string())?;
        if said.is_empty() { Ok(()) } else { Err(said) }
    }
}

fn words(program: &Path, launch: &Launch) -> io::Result<Vec<OsString>> {
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
    let until = Instant::now() + TRIAL;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() < until => std::thread::sleep(STEP),
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
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(SAID).read_to_end(&mut said)?;
    }
    let said = String::from_utf8_lossy(&said);
    let said = said.trim().trim_start_matches("plexus: ").trim_start_matches("bwrap: ");
    Ok(if said.is_empty() { format!("it ended with {status}") } else { said.to_owned() })
}
