//! What `connect`, `disconnect`, `sync` and `doctor` work with: the agents of this machine and the folder with what is known of
//! them.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plexus_bridge::{BridgeError, Keeper};
use plexus_kit::config::default_data_dir;
use plexus_kit::{Clock, Environment, env, private_file};

use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::{Answered, Answers, Output};

/// In the folder of the ledger.
const TURN: &str = "turn";
/// For another command to be done, and between two looks whether it is.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Desk {
    pub(crate) keeper: Keeper,
    pub(crate) data_dir: PathBuf,
}

impl Desk {
    pub(crate) fn open(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        Ok(Self::at(std::path::absolute(invocation.data_folder()?)?, invocation.environment()))
    }

    /// The one of the user's own data folder, whatever folder the command is about; none where there is no such folder.
    pub(crate) fn open_default(invocation: &Invocation<'_>) -> anyhow::Result<Option<Self>> {
        let environment = invocation.environment();
        let named = environment.get(env::DATA_DIR).map(PathBuf::from);
        let Some(data_dir) = named.or_else(|| default_data_dir(environment)) else { return Ok(None) };
        Ok(Some(Self::at(std::path::absolute(data_dir)?, environment)))
    }

    /// Waits until no other command connects or disconnects: token and files of an agent go together.
    pub(crate) fn turn(&self) -> anyhow::Result<File> {
        let folder = self.data_dir.join(plexus_bridge::FOLDER);
        private_file::create_dir(&folder)?;
        let file = private_file::open(&folder.join(TURN))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => std::thread::sleep(LOOK),
                Err(error) => {
                    let message = format!("another command is connecting agents: {error}");
                    return Err(Failure::new(Exit::Failed, message)
                        .hint("try again when it has ended")
                        .into());
                }
            }
        }
    }

    fn at(data_dir: PathBuf, environment: &Environment) -> Self {
        let keeper = Keeper::new(&data_dir.join(plexus_bridge::FOLDER), environment, Clock::system());
        Self { keeper, data_dir }
    }
}

/// An error of a file, as commands tell it.
pub(crate) fn refused(error: &BridgeError) -> Failure {
    Failure::new(Exit::Failed, error.to_string()).hint(error.fix())
}

/// Asks a person; where there is none to ask, that is an error.
pub(crate) async fn confirmed(out: &Output, question: &str) -> anyhow::Result<bool> {
    Questions::default().confirmed(out, &format!("{question} [y/N]")).await
}

/// All questions of one command: standard input has one reader.
#[derive(Default)]
pub(crate) struct Questions(Option<Answers>);

impl Questions {
    pub(crate) async fn confirmed(&mut self, out: &Output, question: &str) -> anyhow::Result<bool> {
        if !out.can_ask() {
            return Err(Failure::new(Exit::Usage, "nothing was changed: there is nobody to ask")
                .hint("say --yes to write it, or --dry-run to only see it")
                .into());
        }
        let answers = match &mut self.0 {
            Some(answers) => answers,
            none => none.insert(out.answers()?),
        };
        match answers.to(question).await {
            Answered::With(answer) => Ok(matches!(answer.as_str(), "y" | "yes")),
            Answered::NoMore => Ok(false),
            Answered::Interrupted => {
                Err(Failure::new(Exit::Interrupted, "interrupted: nothing was changed").into())
            }
        }
    }
}
