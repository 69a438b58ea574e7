//! The policy that holds now.

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

/// How often it is looked whether the file has changed, for those who are told of it. A call looks itself.
const LOOK: Duration = Duration::from_secs(1);
/// No policy is as long as this.
const MAX: u64 = 1 << 20;

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Policies(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    environment: Environment,
    data_dir: PathBuf,
    /// Denied besides.
    private: Vec<PathBuf>,
    current: ArcSwap<Policy>,
    seen: Mutex<Seen>,
    versions: watch::Sender<u64>,
}

/// What the file looked like when it was read last; none where there is none.
type Seen = Option<(SystemTime, u64, u32)>;

impl Policies {
    /// Reads the file of a node's folder; without one, the default holds.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn open(data_dir: &Path, environment: &Environment) -> Result<Self, Vec<Problem>> {
        Self::open_also_denying(data_dir, environment, &[])
    }

    /// The same for a node that is a part of something that has a folder of its own.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_also_denying(
        data_dir: &Path,
        environment: &Environment,
        private: &[PathBuf],
    ) -> Result<Self, Vec<Problem>> {
        let file = data_dir.join(FILE);
        let seen = look(&file);
        let policy = load(&file, environment, data_dir)?.also_denying(private);
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

    /// What holds for a call that begins now: a change of the file is taken at once.
    #[must_use]
    pub fn now(&self) -> Arc<Policy> {
        let inner = &self.0;
        let looks = look(&inner.file);
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
                inner.current.store(Arc::new(policy.also_denying(&inner.private)));
                inner.versions.send_modify(|version| *version += 1);
            }
            Err(problems) => {
                for problem in problems {
                    tracing::error!(%problem, "the policy of this machine was not taken, what held before still holds");
                }
            }
        }
        inner.current.load_full()
    }

    #[must_use]
    pub fn file(&self) -> &Path {
        &self.0.file
    }

    /// Told when another policy holds.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.versions.subscribe()
    }

    /// Looks from time to time, for those who wait for a change and do not call.
    pub fn watch(&self, supervisor: &Supervisor) {
        let (policies, stopping) = (self.clone(), supervisor.stopping(Stage::Work));
        supervisor.spawn(Stage::Work, "policy", async move {
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(LOOK) => drop(policies.now()),
                }
            }
        });
    }
}

/// What a file says, for the node of this folder; where there is no file, what holds then.
///
/// # Errors
/// All that is wrong with it.
pub fn check(
    file: &Path,
    environment: &Environment,
    data_dir: &Path,
    private: &[PathBuf],
) -> Result<Policy, Vec<Problem>> {
    load(file, environment, data_dir).map(|policy| policy.also_denying(private))
}

fn look(file: &Path) -> Seen {
    let about = fs_err::metadata(file).ok()?;
    Some((about.modified().ok()?, about.len(), about.permissions().mode()))
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
        Err(error) => return unusable(format!("cannot be looked at ({})", error.kind()), "repair it"),
        Ok(about) if about.len() > MAX => return unusable("is too large".to_owned(), "shorten it"),
        Ok(about) if about.permissions().mode() & 0o022 != 0 => {
            let fix = format!("run `chmod go-w {}`", plexus_kit::shell::word(&file.display().to_string()));
            return unusable("can be written by others, who then decide what is done here".to_owned(), &fix);
        }
        Ok(_) => {}
    }
    match fs_err::read_to_string(file) {
        Ok(text) => read::policy(&text, file, environment, data_dir),
        Err(error) => unusable(format!("cannot be read ({})", error.kind()), "make it readable, as UTF-8"),
    }
}
