//! Which agents are on this machine.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plexus_kit::{Environment, env, process};

use super::{Agent, Scope};

/// For a program to say its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(10);
/// Most that it may say.
const MOST: u64 = 4 << 10;

/// An agent that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    /// A folder of its own is there.
    pub folder: Option<PathBuf>,
}

/// Looks for an agent; none where nothing of it is there.
#[must_use]
pub fn detect(agent: &Agent, environment: &Environment) -> Option<Installed> {
    let path = environment.get(env::PATH).unwrap_or_default();
    let programs = agent.programs.iter().filter_map(|program| process::find_program(program, path));
    let (mut program, mut version) = (None, None);
    for found in programs {
        let said = ask(&found, environment);
        let is_it = agent.says.is_none_or(|word| said.as_deref().is_some_and(|said| said.contains(word)));
        if is_it {
            version = said.as_deref().and_then(version_in);
            program = Some(found);
            break;
        }
    }
    let folders = agent.folders.iter().filter_map(|folder| folder.path(environment, &Scope::User));
    let folder = folders.into_iter().find(|folder| folder.is_dir());
    (program.is_some() || folder.is_some()).then_some(Installed { program, version, folder })
}

/// What a program says of its version.
fn ask(program: &Path, environment: &Environment) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .env_clear()
        .envs(environment.passed_on())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let began = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if began.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            _ => break false,
        }
    };
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    let mut said = Vec::new();
    child.stdout.take()?.take(MOST).read_to_end(&mut said).ok()?;
    Some(String::from_utf8_lossy(&said).into_owned())
}

/// The first word that begins like a version.
fn version_in(said: &str) -> Option<String> {
    let words = said.split_whitespace().map(|word| word.trim_start_matches('v'));
    let is_version = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.contains('.')
            && word.len() <= 60
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte))
    };
    words.into_iter().find(is_version).map(str::to_owned)
}
