//! The current policy of a machine, reloaded when its file changes.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use plexus_kit::findings::Problem;
use plexus_kit::{Environment, Stage, Supervisor};
use tokio::sync::watch;

use super::{FILE, Policy, read};

/// How often [`Policies::watch`] checks the file for changes. Each call checks it as well.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum size of a policy file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Cheap to clone; all clones share one state.
#[derive(Debug, Clone)]
pub struct Policies(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    environment: Environment,
    data_dir: PathBuf,
    /// Folders that are denied in addition to the policy.
    private: Vec<PathBuf>,
    current: ArcSwap<Policy>,
    seen: Mutex<FileStamp>,
    versions: watch::Sender<u64>,
}

/// Modification time, size and mode of the file when it was last read; `None` if it did not exist.
type FileStamp = Option<(SystemTime, u64, u32)>;

impl Policies {
    /// Reads the file in a node's folder. Without a file, the default applies.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn open(data_dir: &Path, environment: &Environment) -> Result<Self, Vec<Problem>> {
        Self::open_with_denied(data_dir, environment, &[])
    }

    /// Like [`Self::open`], for a node embedded in a program that has folders of its own, which are denied too.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with_denied(
        data_dir: &Path,
        environment: &Environment,
        private: &[PathBuf],
    ) -> Result<Self, Vec<Problem>> {
        let file = data_dir.join(FILE);
        let seen = file_stamp(&file);
        let policy = load(&file, environment, data_dir)?.with_denied(private);
        Ok(Self(Arc::new(Inner {
            file,
            environment: environment.clone(),
            data_dir: data_dir.to_owned(),
            private: private.to_owned(),
            current: ArcSwap::from_pointee(policy),
            seen: Mutex::new(seen),
            versions: watch::Sender::new(0),
        })))
    }

    /// The policy for a call that begins now. A change of the file takes effect immediately.
    #[must_use]
    pub fn now(&self) -> Arc<Policy> {
        let inner = &self.0;
        let looks = file_stamp(&inner.file);
        {
            let mut seen = inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == looks {
                return inner.current.load_full();
            }
            *seen = looks;
        }
        match load(&inner.file, &inner.environment, &inner.data_dir) {
            Ok(policy) => {
                tracing::info!(file = %inner.file.display(), "the policy of this machine has changed");
                inner.current.store(Arc::new(policy.with_denied(&inner.private)));
                inner.versions.send_modify(|version| *version += 1);
            }
            Err(problems) => {
                for problem in problems {
                    tracing::error!(%problem, "the policy file of this machine is invalid, the previous policy stays in force");
                }
            }
        }
        inner.current.load_full()
    }

    #[must_use]
    pub fn file(&self) -> &Path {
        &self.0.file
    }

    /// Notifies when another policy takes effect.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.versions.subscribe()
    }

    /// Checks the file periodically, for subscribers that wait for a change without making calls.
    pub fn watch(&self, supervisor: &Supervisor) {
        let (policies, stopping) = (self.clone(), supervisor.stopping(Stage::Work));
        supervisor.spawn(Stage::Work, "policy", async move {
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(WATCH_INTERVAL) => drop(policies.now()),
                }
            }
        });
    }
}

/// Checks a file as the policy of the node in `data_dir`; without a file, returns the default.
///
/// # Errors
/// All problems of the file.
pub fn check(
    file: &Path,
    environment: &Environment,
    data_dir: &Path,
    private: &[PathBuf],
) -> Result<Policy, Vec<Problem>> {
    load(file, environment, data_dir).map(|policy| policy.with_denied(private))
}

fn file_stamp(file: &Path) -> FileStamp {
    let metadata = fs_err::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.permissions().mode()))
}

fn load(file: &Path, environment: &Environment, data_dir: &Path) -> Result<Policy, Vec<Problem>> {
    let unusable = |what: String, fix: &str| {
        let mut findings = plexus_kit::findings::Findings::new(file.to_owned());
        findings.unusable(what, fix);
        Err(findings.problems)
    };
    match fs_err::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Policy::standard(environment, data_dir));
        }
        Err(error) => {
            return unusable(
                format!("cannot be accessed ({})", error.kind()),
                "check its path and permissions",
            );
        }
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            return unusable("is too large".to_owned(), "shorten it");
        }
        Ok(metadata) if metadata.permissions().mode() & 0o022 != 0 => {
            let fix = format!("run `chmod go-w {}`", plexus_kit::shell::word(&file.display().to_string()));
            return unusable(
                "can be written by other users, who could then change the policy of this machine".to_owned(),
                &fix,
            );
        }
        Ok(_) => {}
    }
    match fs_err::read_to_string(file) {
        Ok(text) => read::policy(&text, file, environment, data_dir),
        Err(error) => unusable(format!("cannot be read ({})", error.kind()), "make it readable, as UTF-8"),
    }
}
