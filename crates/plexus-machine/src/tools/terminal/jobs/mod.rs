//! The jobs of a machine: running commands, and ended ones whose output can still be read.
//!
//! A job is a folder; its in-memory state is loaded from it when the node starts. Limits apply to the number of
//! running jobs, the retained output of each, and the number, age and total size of ended jobs. The oldest are
//! removed first.

mod identity;
mod job;
mod keeper;
mod record;
mod screen;
pub(in crate::tools) mod signals;
mod spool;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fs_err as fs;
use plexus_kit::{Stage, private_file, shell};
use plexus_proto::{CallId, SessionId, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use crate::Machine;
use crate::launch::{Launch, Sandbox, packed};
use crate::policy::Policy;
use crate::tools::output::Stream;
use identity::Identity;
use job::{MARK, WatchRequest};
use keeper::JobCommand;
use record::BORN;
use screen::Keyboard;
use watch::{Leader, Watch};

pub(super) use job::{FeedError, Job};
pub(super) use keeper::Stdin;
pub(super) use record::{Exit, Record, StopReason};
pub(super) use screen::Screen;
pub(super) use signals::to_send as signal_to_send;
pub(super) use spool::{Part, Spool};

/// The queue length of requests to the task that watches a job. Senders wait if it is full.
const REQUEST_QUEUE: usize = 8;
/// The maximum number of characters of a command in a list.
const COMMAND: usize = 200;
/// The alphabet of ids: no lookalikes, and no characters with a meaning in paths.
const ID_CHARACTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const ID_LENGTH: usize = 8;

/// The limits on jobs.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Jobs running at the same time.
    pub(super) running: usize,
    /// Retained bytes of each output stream.
    pub(super) spool: u64,
    /// Retained ended jobs.
    pub(super) ended: usize,
    /// The age since their end.
    pub(super) age: Duration,
    /// The total disk space.
    pub(super) bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            running: 64,
            spool: 256 << 20,
            ended: 500,
            age: Duration::from_secs(7 * 24 * 3600),
            bytes: 2 << 30,
        }
    }
}

/// Names and values.
type Variables = Vec<(String, String)>;

/// A command to start.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) argv: Vec<String>,
    pub(super) line: Option<String>,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<String, String>,
    pub(super) stdin: Stdin,
    pub(super) limit: Option<Duration>,
    pub(super) screen: Option<Screen>,
    /// The job ends with the call that waits for it, also if the node stops.
    pub(super) leashed: bool,
    pub(super) by: String,
    pub(super) session_id: SessionId,
    pub(super) call_id: CallId,
    /// The sandbox; `None` runs the command without one.
    pub(super) sandbox: Option<Sandbox>,
    /// The policy that allowed the command.
    pub(super) policy: Arc<Policy>,
}

/// The reason a command was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("{0} jobs are already running, which is the maximum")]
    TooMany(usize),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Cheap to clone; all clones share the same jobs.
#[derive(Debug, Clone)]
pub(super) struct Jobs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    machine: Machine,
    limits: Limits,
    running_slots: Arc<Semaphore>,
    all: Mutex<HashMap<String, Arc<Job>>>,
}

impl Jobs {
    /// Loads the jobs of an earlier process, running and ended.
    pub(super) fn open(machine: &Machine, limits: Limits) -> io::Result<Self> {
        let folder = machine.data_dir.join("jobs");
        private_file::create_dir(&folder)?;
        let jobs = Self(Arc::new(Inner {
            running_slots: Arc::new(Semaphore::new(limits.running)),
            folder,
            machine: machine.clone(),
            limits,
            all: Mutex::default(),
        }));
        let boot_id = identity::boot_id();
        for entry in fs::read_dir(&jobs.0.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            // Symlinks are skipped: the node only creates real folders here.
            if let Some(id) = name.to_str().filter(|name| is_id(name))
                && entry.file_type()?.is_dir()
                && let Some(record) = Record::read(&entry.path())
            {
                jobs.find(id, record, &entry.path(), &boot_id);
            }
        }
        jobs.0.prune();
        Ok(jobs)
    }

    fn find(&self, id: &str, record: Record, folder: &Path, boot_id: &str) {
        let now = self.0.machine.clock.now();
        let leader = Identity::written(&folder.join(BORN))
            .filter(|leader| record.boot_id == boot_id && leader.is_alive())
            .filter(|_| Exit::read(folder).is_none());
        let Some(leader) = leader else {
            let job = Job::recovered(id.to_owned(), record, folder.to_owned(), now, None);
            self.0.all().insert(id.to_owned(), Arc::new(job));
            return;
        };
        let left = |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or_default();
        let until = record.until.map(|until| Instant::now() + left(until));
        let (sender, requests) = mpsc::channel(REQUEST_QUEUE);
        let job = Arc::new(Job::recovered(id.to_owned(), record, folder.to_owned(), now, Some(sender)));
        // More jobs may be running than the limit allows to start.
        let slot = self.0.running_slots.clone().try_acquire_owned().ok();
        self.watch(job.clone(), Leader::Found(leader), requests, until, slot);
        if job.record.leashed {
            // Its caller is told that the call was interrupted and must be able to rely on that.
            job.stop(StopReason::Interrupted);
        }
    }

    fn watch(
        &self,
        job: Arc<Job>,
        leader: Leader,
        requests: mpsc::Receiver<WatchRequest>,
        until: Option<Instant>,
        slot: Option<OwnedSemaphorePermit>,
    ) {
        let machine = &self.0.machine;
        self.0.all().insert(job.id.clone(), job.clone());
        let watch = Watch {
            spools: vec![job.spool(Stream::Stdout), job.spool(Stream::Stderr)],
            job,
            leader,
            requests,
            until,
            spool_bytes: self.0.limits.spool,
            clock: machine.clock.clone(),
            stopping: machine.supervisor.stopping(Stage::Storage),
            _slot: slot,
        };
        // In the last stage, because calls that wait for a job end before it.
        machine.supervisor.spawn(Stage::Storage, "terminal job", watch.run());
    }

    /// Starts a command.
    pub(super) fn start(&self, request: Request) -> Result<Arc<Job>, StartError> {
        let slot = self.0.running_slots.clone().try_acquire_owned();
        let slot = slot.map_err(|_| StartError::TooMany(self.0.limits.running))?;
        let (id, folder) = self.0.new_folder()?;
        let job = self.launch(id, &folder, request, slot);
        if job.is_err() {
            // A job that never started leaves nothing behind.
            let _ = fs::remove_dir_all(&folder);
        }
        let inner = self.0.clone();
        // In the background: starting a job need not wait for the removal of others.
        drop(tokio::task::spawn_blocking(move || inner.prune()));
        job
    }

    fn launch(
        &self,
        id: String,
        folder: &Path,
        mut request: Request,
        slot: OwnedSemaphorePermit,
    ) -> Result<Arc<Job>, StartError> {
        let machine = &self.0.machine;
        let now = machine.clock.now();
        let (argv, environment) = self.0.prepare_command(&id, &mut request)?;
        let record = Record {
            command: redacted(&request),
            cwd: request.cwd.display().to_string(),
            pty: request.screen.is_some(),
            leashed: request.leashed,
            started_at: now,
            until: request.limit.and_then(|limit| now.checked_add(limit).ok()),
            boot_id: identity::boot_id(),
            by: request.by,
            session_id: request.session_id,
            call_id: request.call_id,
        };
        record.write(folder)?;
        let stdout = Spool::create(&folder.join("stdout"))?;
        Spool::create(&folder.join("stderr"))?;
        let (sender, requests) = mpsc::channel(REQUEST_QUEUE);
        let launch = JobCommand { argv: &argv, cwd: &request.cwd, environment };
        let (leader, keyboard) = match request.screen {
            None => (Leader::Keeper(keeper::start(folder, &launch, &request.stdin)?), None),
            Some(screen) => {
                let (child, pty) = screen::start(&launch, screen)?;
                if let Some(leader) = child.id().and_then(Identity::of) {
                    private_file::write_unsynced(&folder.join(BORN), leader.text().as_bytes())?;
                }
                let (keyboard, keys) = Keyboard::new();
                if let Stdin::Text(text) = &request.stdin {
                    keyboard.begin_with(text);
                }
                let pump = Box::pin(screen::pump(pty, stdout, keys));
                (Leader::InTerminal { child, pump, pump_done: false }, Some(keyboard))
            }
        };
        let until = request.limit.map(|limit| Instant::now() + limit);
        let job = Arc::new(Job::started(id, record, folder.to_owned(), sender, keyboard));
        self.watch(job.clone(), leader, requests, until, Some(slot));
        Ok(job)
    }

    /// Looks up a job. Only issued ids are known, so no other text can reach a path.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Job>> {
        self.0.all().get(id).cloned()
    }

    /// All jobs, newest first.
    pub(super) fn all(&self) -> Vec<Arc<Job>> {
        let mut all: Vec<_> = self.0.all().values().cloned().collect();
        all.sort_by(|one, other| (other.record.started_at, &other.id).cmp(&(one.record.started_at, &one.id)));
        all
    }
}

impl Inner {
    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Job>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_folder(&self) -> io::Result<(String, PathBuf)> {
        loop {
            let id = new_id();
            let folder = self.folder.join(&id);
            match fs::create_dir(&folder) {
                Ok(()) => {
                    private_file::create_dir(&folder)?;
                    return Ok((id, folder));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The program, arguments and environment of the command, or of the launcher that executes it.
    fn prepare_command(&self, id: &str, request: &mut Request) -> io::Result<(Vec<OsString>, Variables)> {
        let environment = self.environment(id, request);
        let argv = request.argv.iter().map(OsString::from).collect();
        match (&self.machine.launcher, request.sandbox.take()) {
            (Some(launcher), Some(sandbox)) => {
                let launch = Launch { argv, sandbox: Some(sandbox), ..Launch::default() };
                Ok((launcher.command_line(&launch)?, packed(&environment)))
            }
            _ => Ok((argv, environment)),
        }
    }

    /// The inherited variables, the caller's variables, and the mark of the job.
    fn environment(&self, id: &str, request: &Request) -> Vec<(String, String)> {
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut variables: BTreeMap<_, _> =
            request.policy.environment.passed(&self.machine.environment).map(own).collect();
        if request.screen.is_some() {
            variables.insert("TERM".to_owned(), "xterm-256color".to_owned());
        }
        variables.extend(request.env.clone());
        variables.insert(MARK.to_owned(), id.to_owned());
        variables.into_iter().collect()
    }

    /// Removes ended jobs beyond the limits on number, age and size, oldest first. For jobs whose end this process
    /// has seen, the monotonic clock decides: a job that just ended must not become old because the date was changed,
    /// since its caller is about to read its output.
    fn prune(&self) {
        let now = self.machine.clock.now();
        let end = |job: &Arc<Job>| job.end().map(|end| ((end.seen, end.ended_at), job.clone()));
        let mut ended: Vec<_> = self.all().values().filter_map(end).collect();
        ended.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let mut bytes = 0;
        for (index, ((seen, ended_at), job)) in ended.into_iter().enumerate() {
            bytes += [Stream::Stdout, Stream::Stderr].map(|it| job.spool(it).on_disk()).iter().sum::<u64>();
            let by_date = || Duration::try_from(now.duration_since(ended_at)).unwrap_or_default();
            let age = seen.map_or_else(by_date, |seen| seen.elapsed());
            if index < self.limits.ended && bytes <= self.limits.bytes && age < self.limits.age {
                continue;
            }
            self.all().remove(&job.id);
            if let Err(error) = fs::remove_dir_all(job.folder()) {
                tracing::warn!(%error, job = %job.id, "an old job cannot be removed");
            }
        }
    }
}

/// A command as lists show it.
fn redacted(request: &Request) -> String {
    let words = || request.argv.iter().map(|word| shell::word(word)).collect::<Vec<_>>().join(" ");
    let command = request.line.clone().unwrap_or_else(words);
    let command = plexus_tools::redacted(&command).unwrap_or(command);
    match command.char_indices().nth(COMMAND) {
        Some((cut, _)) => format!("{}…", &command[..cut]),
        None => command,
    }
}

fn new_id() -> String {
    let random: u64 = rand::random();
    let id_character =
        |index: usize| char::from(ID_CHARACTERS[(random >> (5 * index)) as usize % ID_CHARACTERS.len()]);
    (0..ID_LENGTH).map(id_character).collect()
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|byte| ID_CHARACTERS.contains(&byte))
}

#[cfg(test)]
mod tests;
