//! The program that launches, and what it can do on this machine.

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
/// What every system has that jobs run on.
const SHELL: &str = "/bin/sh";
/// For a sandbox to be made and to do nothing.
const TRIAL: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(2);
/// Bytes of what a failed trial says.
const SAID: u64 = 300;

/// What commands are really held by.
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

/// Why a level does not work here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub level: Held,
    pub because: String,
}

/// The level that a policy asks for does not work here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy of this machine asks for the sandbox `{}`, which does not work here: {}", .0.level, .0.because)]
pub struct Unavailable(pub Missing);

/// Cheap to clone; all clones are one, and what was tried once is known to all.
#[derive(Debug, Clone)]
pub struct Launcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    program: PathBuf,
    /// As it is called on this machine, if it is there.
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

    /// Program and arguments that begin a command. Its environment is to be [`super::packed`].
    ///
    /// # Errors
    /// When a path in it cannot be told.
    pub fn words(&self, launch: &Launch) -> io::Result<Vec<OsString>> {
        words(&self.0.program, launch)
    }

    /// The same by the program that runs now, whatever is at its path since.
    pub(super) fn own_words(launch: &Launch) -> io::Result<Vec<OsString>> {
        words(Path::new("/proc/self/exe"), launch)
    }

    /// What commands are held by under these rules.
    ///
    /// # Errors
    /// When what is asked for does not work here: nothing may be run then.
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

    /// The levels that do not work here, the strongest first.
    #[must_use]
    pub fn missing(&self, network: bool) -> Vec<Missing> {
        let levels = [Held::Bubblewrap, Held::Landlock].into_iter();
        levels
            .filter_map(|level| Some(Missing { level, because: self.works(level, network).err()? }))
            .collect()
    }

    /// What a command is to be put into; none where it is held by nothing.
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
        // By its real name too, wherever the node was told that it is.
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

    /// Whether a level works here, found out once by having it.
    fn works(&self, level: Held, network: bool) -> Result<(), String> {
        if !cfg!(target_os = "linux") {
            return Err("it is a part of Linux".to_owned());
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

/// What a program says that does not end well; nothing where it does.
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
