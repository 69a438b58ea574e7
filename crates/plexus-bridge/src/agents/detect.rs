//! Which agents are on this machine.
//!
//! To look for a program costs nothing; to ask it for its version starts it, which takes up to some seconds, and some make
//! folders of theirs by it. So folders are looked for first, and a caller that only wants to know what is there asks nobody.
//! A version comes from the files of the package, else from an earlier answer of the same program, and only then from the
//! program itself, which gets a home folder that is thrown away.

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
use super::{AGENTS, Agent, Says, Scope, Versions, release};

/// For a program to say its version; on a busy machine one that runs on Node.js takes six seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(10);
/// Most that is read of what it says.
const MOST: usize = 4 << 10;

/// An agent that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    /// A folder of its own is there.
    pub folder: Option<PathBuf>,
}

/// Whether something of an agent seems to be there. Nothing is run, so a program of another maker may have its name.
#[must_use]
pub fn present(agent: &Agent, environment: &Environment) -> bool {
    programs(agent, environment).next().is_some() || folder(agent, environment).is_some()
}

/// Looks for an agent; none where nothing of it is there.
#[must_use]
pub fn detect(agent: &Agent, environment: &Environment, versions: &Versions) -> Option<Installed> {
    detect_within(agent, environment, versions, PATIENCE)
}

/// All that are there, in the order of the table. They are asked at the same time.
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

/// One agent that is looked for.
struct Look<'l> {
    agent: &'l Agent,
    environment: &'l Environment,
    versions: &'l Versions,
    known: &'l Known,
    patience: Duration,
    /// Answers to keep.
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
        let is_agent = match (self.agent.says, &said) {
            (Says::Anything, _) => true,
            (Says::Word(word), Some(said)) => said.contains(word),
            (Says::OnlyVersion, Some(said)) => version.is_some() && said.split_whitespace().count() == 1,
            (_, None) => false,
        };
        let answer = Answer { is_agent, version };
        // One that failed may do better the next time.
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

/// A home folder for a program that is asked for its version, removed with all that the program has made in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(environment: &Environment) -> Option<Self> {
        let folder = environment.named("TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
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

/// Where managers of versions keep the programs that they start in the place of others: in the real home.
const MANAGERS: [(&str, &str); 6] = [
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_CONFIG_DIR", ".config/mise"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("NVM_DIR", ".nvm"),
    ("PROTO_HOME", ".proto"),
    ("VOLTA_HOME", ".volta"),
];

/// The variables of [`MANAGERS`] that are needed where the home is another one.
fn managers(environment: &Environment) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let home = environment.get(env::HOME).map(PathBuf::from);
    MANAGERS.into_iter().filter_map(move |(name, below)| {
        let set = environment.named(name).map(PathBuf::from);
        let folder = set.or_else(|| Some(home.as_ref()?.join(below)))?;
        folder.is_dir().then_some((name, folder))
    })
}

/// What a program says of its version.
fn ask(program: &Path, environment: &Environment, patience: Duration) -> Option<String> {
    let scratch = Scratch::new(environment)?;
    let passed_on = environment.passed_on().filter(|(name, _)| !name.starts_with("XDG_"));
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
    // What it has started ends with it, also when it is not waited for any longer.
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

/// What is in the pipe of a program that has ended. Somebody it left behind may hold it open, and is not waited for.
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

/// The first word that begins like a version.
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
