//! Which agents are on this machine.
//!
//! To look for a program costs nothing; to ask it for its version starts it, which takes up to some seconds, and some make
//! folders of theirs by it. So folders are looked for first, and who only wants to know what is there asks nobody.

use std::io::{ErrorKind, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use plexus_kit::process::Group;
use plexus_kit::{Environment, env, process};
use rustix::fs::OFlags;

use super::{AGENTS, Agent, Says, Scope};

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
pub fn detect(agent: &Agent, environment: &Environment) -> Option<Installed> {
    detect_within(agent, environment, PATIENCE)
}

/// All that are there, in the order of the table. They are asked at the same time.
#[must_use]
pub fn detect_all(environment: &Environment) -> Vec<(&'static Agent, Installed)> {
    std::thread::scope(|scope| {
        let there = AGENTS.iter().filter(|agent| present(agent, environment));
        let asked: Vec<_> = there.map(|agent| (agent, scope.spawn(|| detect(agent, environment)))).collect();
        let answers = asked.into_iter().map(|(agent, asked)| Some((agent, asked.join().ok()??)));
        answers.flatten().collect()
    })
}

pub(super) fn detect_within(
    agent: &Agent,
    environment: &Environment,
    patience: Duration,
) -> Option<Installed> {
    let folder = folder(agent, environment);
    let asked = programs(agent, environment).find_map(|program| {
        let said = ask(&program, environment, patience);
        let version = said.as_deref().and_then(version_in);
        let is_it = match agent.says {
            Says::Anything => true,
            Says::Word(word) => said.is_some_and(|said| said.contains(word)),
            Says::OnlyVersion => {
                version.is_some() && said.is_some_and(|said| said.split_whitespace().count() == 1)
            }
        };
        is_it.then_some((program, version))
    });
    let (program, version) = asked.map_or((None, None), |(program, version)| (Some(program), version));
    (program.is_some() || folder.is_some()).then_some(Installed { program, version, folder })
}

fn programs(agent: &Agent, environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let path = environment.get(env::PATH).unwrap_or_default();
    agent.programs.iter().filter_map(move |program| process::find_program(program, path))
}

fn folder(agent: &Agent, environment: &Environment) -> Option<PathBuf> {
    let mut folders = agent.folders.iter().filter_map(|folder| folder.path(environment, &Scope::User));
    folders.find(|folder| folder.is_dir())
}

/// What a program says of its version.
fn ask(program: &Path, environment: &Environment, patience: Duration) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .env_clear()
        .envs(environment.passed_on())
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
