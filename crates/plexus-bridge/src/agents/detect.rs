//! Detects the agents installed on this machine.
//!
//! Finding a program is cheap; running it for its version can take seconds, and some programs create folders when they run. So folders
//! are checked first, and a caller that only needs to know which agents exist runs nothing. A version comes from the files of the
//! package, else from the cache, and only then from the program itself, which runs with a temporary home folder.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use plexus_kit::process::Group;
use plexus_kit::{Environment, env, process};
use rustix::fs::OFlags;

use super::versions::{self, Answer, Known};
use super::{AGENTS, Agent, Scope, VersionOutput, Versions, release};

/// The timeout for a program to print its version; on a busy machine a Node.js program takes six seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// The polling interval for its exit.
const LOOK: Duration = Duration::from_millis(10);
/// The most output that is read, in bytes.
const MOST: usize = 4 << 10;

/// A detected agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    /// Whether one of its folders exists.
    pub folder: Option<PathBuf>,
}

/// Whether traces of an agent exist. Nothing is run, so an unrelated program with the same name also counts.
#[must_use]
pub fn present(agent: &Agent, environment: &Environment) -> bool {
    programs(agent, environment).next().is_some() || folder(agent, environment).is_some()
}

/// Detects an agent; none if no trace of it exists.
#[must_use]
pub fn detect(agent: &Agent, environment: &Environment, versions: &Versions) -> Option<Installed> {
    detect_within(agent, environment, versions, PATIENCE)
}

/// Detects all agents concurrently, in the order of the table.
#[must_use]
pub fn detect_all(environment: &Environment, versions: &Versions) -> Vec<(&'static Agent, Installed)> {
    let known = &versions.read();
    let mut new = Known::new();
    let found = std::thread::scope(|scope| {
        let there = AGENTS.iter().filter(|agent| present(agent, environment));
        let look =
            |agent| Look { agent, environment, versions, known, patience: PATIENCE, new: Known::new() };
        let asked: Vec<_> = there.map(|agent| (agent, scope.spawn(move || look(agent).detect()))).collect();
        let mut found = Vec::new();
        for (agent, asked) in asked {
            let Ok((installed, asked)) = asked.join() else { continue };
            new.extend(asked);
            found.extend(installed.map(|installed| (agent, installed)));
        }
        found
    });
    versions.add(new);
    found
}

pub(super) fn detect_within(
    agent: &Agent,
    environment: &Environment,
    versions: &Versions,
    patience: Duration,
) -> Option<Installed> {
    let known = versions.read();
    let look = Look { agent, environment, versions, known: &known, patience, new: Known::new() };
    let (installed, new) = look.detect();
    versions.add(new);
    installed
}

/// The detection of one agent.
struct Look<'l> {
    agent: &'l Agent,
    environment: &'l Environment,
    versions: &'l Versions,
    known: &'l Known,
    patience: Duration,
    /// New cache entries.
    new: Known,
}

impl Look<'_> {
    fn detect(mut self) -> (Option<Installed>, Known) {
        let folder = folder(self.agent, self.environment);
        let found = programs(self.agent, self.environment).find_map(|program| {
            let answer = self.answer(&program);
            answer.is_agent.then_some((program, answer.version))
        });
        let (program, version) = found.map_or((None, None), |(program, version)| (Some(program), version));
        let is_there = program.is_some() || folder.is_some();
        (is_there.then_some(Installed { program, version, folder }), self.new)
    }

    fn answer(&mut self, program: &Path) -> Answer {
        if let Some(version) = release::installed(self.agent, program) {
            return Answer { is_agent: true, version: Some(version) };
        }
        let key = versions::key(self.agent.id, program);
        if let Some(answer) = versions::known(self.known, &key, program) {
            return answer.clone();
        }
        let said = ask(program, self.environment, self.patience);
        let version = said.as_deref().and_then(version_in);
        let is_agent = match (self.agent.version_output, &said) {
            (VersionOutput::Any, _) => true,
            (VersionOutput::Contains(word), Some(said)) => said.contains(word),
            (VersionOutput::OnlyVersion, Some(said)) => {
                version.is_some() && said.split_whitespace().count() == 1
            }
            (_, None) => false,
        };
        let answer = Answer { is_agent, version };
        // A failed program may succeed the next time.
        if said.is_some() {
            self.new.extend(self.versions.entry(program, answer.clone()).map(|entry| (key, entry)));
        }
        answer
    }
}

fn programs(agent: &Agent, environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let path = environment.get(env::PATH).unwrap_or_default();
    agent.programs.iter().filter_map(move |program| process::find_program(program, path))
}

fn folder(agent: &Agent, environment: &Environment) -> Option<PathBuf> {
    let mut folders = agent.folders.iter().filter_map(|folder| folder.path(environment, &Scope::User));
    folders.find(|folder| folder.is_dir())
}

/// A temporary home folder for a program that prints its version; removed with its content.
struct Scratch(PathBuf);

impl Scratch {
    fn new(environment: &Environment) -> Option<Self> {
        let folder =
            environment.get_by_name("TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let folder = folder.unwrap_or_else(|| PathBuf::from("/tmp"));
        let path = folder.join(format!("plexus-version-{:016x}", rand::random::<u64>()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).ok()?;
        Some(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Folders, in the real home, where version managers store the programs that their shims start.
const MANAGERS: [(&str, &str); 6] = [
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_CONFIG_DIR", ".config/mise"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("NVM_DIR", ".nvm"),
    ("PROTO_HOME", ".proto"),
    ("VOLTA_HOME", ".volta"),
];

/// The variables of [`MANAGERS`] that are needed with a temporary home.
fn managers(environment: &Environment) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let home = environment.get(env::HOME).map(PathBuf::from);
    MANAGERS.into_iter().filter_map(move |(name, below)| {
        let set = environment.get_by_name(name).map(PathBuf::from);
        let folder = set.or_else(|| Some(home.as_ref()?.join(below)))?;
        folder.is_dir().then_some((name, folder))
    })
}

/// Runs a program for its version.
fn ask(program: &Path, environment: &Environment, patience: Duration) -> Option<String> {
    let scratch = Scratch::new(environment)?;
    let passed_on = environment.inherited().filter(|(name, _)| !name.starts_with("XDG_"));
    let mut child = Command::new(program)
        .arg("--version")
        .env_clear()
        .envs(passed_on)
        .envs(managers(environment))
        .env(env::HOME.name, &scratch.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .ok()?;
    // Its child processes end with it, also after the timeout.
    let group = Group::of(child.id());
    let began = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if began.elapsed() < patience => std::thread::sleep(LOOK),
            _ => break false,
        }
    };
    drop(group);
    if !ended {
        let _ = child.wait();
        return None;
    }
    said(child.stdout.take()?)
}

/// Reads the pipe of a program that has ended. A leftover child process may hold it open and is not awaited.
fn said(mut pipe: ChildStdout) -> Option<String> {
    rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK).ok()?;
    let mut said = vec![0; MOST];
    let mut length = 0;
    while length < MOST {
        match pipe.read(&mut said[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&said[..length]).into_owned())
}

/// The first word that looks like a version.
pub(super) fn version_in(said: &str) -> Option<String> {
    let words = said.split_whitespace().map(|word| word.trim_start_matches('v'));
    let is_version = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.contains('.')
            && word.len() <= 60
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte))
    };
    words.into_iter().find(is_version).map(str::to_owned)
}
