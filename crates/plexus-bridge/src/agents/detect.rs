//! Detects the agents installed on this machine.
//!
//! Finding a program is cheap; running it for its version can take seconds, and some programs create folders when
//! they run. So folders are checked first, and a caller that only needs to know which agents exist runs nothing. A
//! version comes from the files of the package, else from the cache, and only then from the program itself, which
//! runs with a temporary home folder.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use plexus_kit::process::Group;
use plexus_kit::{Environment, env, process};
use rustix::fs::OFlags;

use super::versions::{self, CachedVersions, DetectedVersion};
use super::{AGENTS, Agent, Scope, VersionCache, VersionOutput, release};

/// The timeout for a program to print its version; on a busy machine a Node.js program takes six seconds.
const VERSION_TIMEOUT: Duration = Duration::from_secs(15);
/// The polling interval for its exit.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The most output that is read, in bytes.
const MAX_OUTPUT: usize = 4 << 10;

/// A detected agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledAgent {
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    /// Whether one of its folders exists.
    pub folder: Option<PathBuf>,
}

/// Whether traces of an agent exist. Nothing is run, so an unrelated program with the same name also counts.
#[must_use]
pub fn is_present(agent: &Agent, environment: &Environment) -> bool {
    programs(agent, environment).next().is_some() || folder(agent, environment).is_some()
}

/// Detects an agent; none if no trace of it exists.
#[must_use]
pub fn detect(agent: &Agent, environment: &Environment, versions: &VersionCache) -> Option<InstalledAgent> {
    detect_within(agent, environment, versions, VERSION_TIMEOUT)
}

/// Detects all agents concurrently, in the order of the table.
#[must_use]
pub fn detect_all(
    environment: &Environment,
    versions: &VersionCache,
) -> Vec<(&'static Agent, InstalledAgent)> {
    let cached = &versions.read();
    let mut new = CachedVersions::new();
    let found = std::thread::scope(|scope| {
        let candidates = AGENTS.iter().filter(|agent| is_present(agent, environment));
        let detection = |agent| AgentDetection {
            agent,
            environment,
            versions,
            cached,
            timeout: VERSION_TIMEOUT,
            new: CachedVersions::new(),
        };
        let running: Vec<_> =
            candidates.map(|agent| (agent, scope.spawn(move || detection(agent).detect()))).collect();
        let mut found = Vec::new();
        for (agent, thread) in running {
            let Ok((installed, new_entries)) = thread.join() else { continue };
            new.extend(new_entries);
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
    versions: &VersionCache,
    timeout: Duration,
) -> Option<InstalledAgent> {
    let cached = versions.read();
    let detection =
        AgentDetection { agent, environment, versions, cached: &cached, timeout, new: CachedVersions::new() };
    let (installed, new) = detection.detect();
    versions.add(new);
    installed
}

/// The detection of one agent.
struct AgentDetection<'l> {
    agent: &'l Agent,
    environment: &'l Environment,
    versions: &'l VersionCache,
    cached: &'l CachedVersions,
    timeout: Duration,
    /// New cache entries.
    new: CachedVersions,
}

impl AgentDetection<'_> {
    fn detect(mut self) -> (Option<InstalledAgent>, CachedVersions) {
        let folder = folder(self.agent, self.environment);
        let found = programs(self.agent, self.environment).find_map(|program| {
            let answer = self.answer(&program);
            answer.is_agent.then_some((program, answer.version))
        });
        let (program, version) = found.map_or((None, None), |(program, version)| (Some(program), version));
        let is_detected = program.is_some() || folder.is_some();
        (is_detected.then_some(InstalledAgent { program, version, folder }), self.new)
    }

    fn answer(&mut self, program: &Path) -> DetectedVersion {
        if let Some(version) = release::installed_version(self.agent, program) {
            return DetectedVersion { is_agent: true, version: Some(version) };
        }
        let key = versions::key(self.agent.id, program);
        if let Some(answer) = versions::cached(self.cached, &key, program) {
            return answer.clone();
        }
        let output = version_output(program, self.environment, self.timeout);
        let version = output.as_deref().and_then(version_in);
        let is_agent = match (self.agent.version_output, &output) {
            (VersionOutput::Any, _) => true,
            (VersionOutput::Contains(word), Some(output)) => output.contains(word),
            (VersionOutput::OnlyVersion, Some(output)) => {
                version.is_some() && output.split_whitespace().count() == 1
            }
            (_, None) => false,
        };
        let answer = DetectedVersion { is_agent, version };
        // A failed program may succeed the next time.
        if output.is_some() {
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
struct TemporaryHome(PathBuf);

impl TemporaryHome {
    fn new(environment: &Environment) -> Option<Self> {
        let folder =
            environment.get_by_name("TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let folder = folder.unwrap_or_else(|| PathBuf::from("/tmp"));
        let path = folder.join(format!("plexus-version-{:016x}", rand::random::<u64>()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).ok()?;
        Some(Self(path))
    }
}

impl Drop for TemporaryHome {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Folders, in the real home, where version managers store the programs that their shims start.
const VERSION_MANAGERS: [(&str, &str); 6] = [
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_CONFIG_DIR", ".config/mise"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("NVM_DIR", ".nvm"),
    ("PROTO_HOME", ".proto"),
    ("VOLTA_HOME", ".volta"),
];

/// The variables of [`VERSION_MANAGERS`] that are needed with a temporary home.
fn version_manager_folders(environment: &Environment) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let home = environment.get(env::HOME).map(PathBuf::from);
    VERSION_MANAGERS.into_iter().filter_map(move |(name, below)| {
        let set = environment.get_by_name(name).map(PathBuf::from);
        let folder = set.or_else(|| Some(home.as_ref()?.join(below)))?;
        folder.is_dir().then_some((name, folder))
    })
}

/// Runs a program for its version.
fn version_output(program: &Path, environment: &Environment, timeout: Duration) -> Option<String> {
    let temporary_home = TemporaryHome::new(environment)?;
    let passed_on = environment.inherited().filter(|(name, _)| !name.starts_with("XDG_"));
    let mut child = Command::new(program)
        .arg("--version")
        .env_clear()
        .envs(passed_on)
        .envs(version_manager_folders(environment))
        .env(env::HOME.name, &temporary_home.0)
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
            Ok(None) if began.elapsed() < timeout => std::thread::sleep(POLL_INTERVAL),
            _ => break false,
        }
    };
    drop(group);
    if !ended {
        let _ = child.wait();
        return None;
    }
    read_output(child.stdout.take()?)
}

/// Reads the pipe of a program that has ended. A leftover child process may hold it open and is not awaited.
fn read_output(mut pipe: ChildStdout) -> Option<String> {
    rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK).ok()?;
    let mut output = vec![0; MAX_OUTPUT];
    let mut length = 0;
    while length < MAX_OUTPUT {
        match pipe.read(&mut output[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&output[..length]).into_owned())
}

/// The first word that looks like a version.
pub(super) fn version_in(output: &str) -> Option<String> {
    let words = output.split_whitespace().map(|word| word.trim_start_matches('v'));
    let is_version = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.contains('.')
            && word.len() <= 60
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte))
    };
    words.into_iter().find(is_version).map(str::to_owned)
}
