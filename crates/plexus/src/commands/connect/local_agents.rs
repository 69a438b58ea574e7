//! The agents on this machine and the folder with their state, for `connect`, `disconnect`, `sync` and `doctor`.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plexus_bridge::{AgentManager, BridgeError};
use plexus_kit::config::default_data_dir;
use plexus_kit::{Clock, Environment, env, private_file};

use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Prompt, PromptReply};

/// Name of the lock file, in the folder of the ledger.
const LOCK_FILE: &str = "turn";
/// How long to wait for another command to release the lock, and how often to try.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const LOCK_POLL: Duration = Duration::from_millis(20);

pub(crate) struct LocalAgents {
    pub(crate) keeper: AgentManager,
    pub(crate) data_dir: PathBuf,
}

impl LocalAgents {
    pub(crate) fn open(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        Ok(Self::at(std::path::absolute(invocation.data_folder()?)?, invocation.environment()))
    }

    /// Opens the user's own data folder, whatever `--data-dir` says; none if there is no such folder.
    pub(crate) fn open_default(invocation: &Invocation<'_>) -> anyhow::Result<Option<Self>> {
        let environment = invocation.environment();
        let named = environment.get(env::DATA_DIR).map(PathBuf::from);
        let Some(data_dir) = named.or_else(|| default_data_dir(environment)) else { return Ok(None) };
        Ok(Some(Self::at(std::path::absolute(data_dir)?, environment)))
    }

    /// Waits until no other command connects or disconnects agents, so that an agent's token and files stay consistent.
    pub(crate) fn lock(&self) -> anyhow::Result<File> {
        let folder = self.data_dir.join(plexus_bridge::FOLDER);
        private_file::create_dir(&folder)?;
        let file = private_file::open(&folder.join(LOCK_FILE))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(LOCK_POLL)
                }
                Err(error) => {
                    let message = format!("another command is changing the agents: {error}");
                    return Err(Failure::new(Exit::Failed, message)
                        .hint("try again when it has ended")
                        .into());
                }
            }
        }
    }

    fn at(data_dir: PathBuf, environment: &Environment) -> Self {
        let keeper = AgentManager::new(&data_dir.join(plexus_bridge::FOLDER), environment, Clock::system());
        Self { keeper, data_dir }
    }
}

/// Converts an error of an agent's file.
pub(crate) fn failure(error: &BridgeError) -> Failure {
    Failure::new(Exit::Failed, error.to_string()).hint(error.fix())
}

/// Asks the user; an error without a terminal.
pub(crate) async fn confirm(out: &Output, question: &str) -> anyhow::Result<bool> {
    Questions::default().confirm(out, &format!("{question} [y/N]")).await
}

/// Asks all questions of one command, because standard input can have only one reader.
#[derive(Default)]
pub(crate) struct Questions(Option<Prompt>);

impl Questions {
    pub(crate) async fn confirm(&mut self, out: &Output, question: &str) -> anyhow::Result<bool> {
        if !out.can_prompt() {
            return Err(Failure::new(Exit::Usage, "nothing was changed: there is no terminal to ask on")
                .hint("pass --yes to write, or --dry-run to only show the changes")
                .into());
        }
        let prompt = match &mut self.0 {
            Some(prompt) => prompt,
            none => none.insert(out.prompt()?),
        };
        match prompt.ask(question).await {
            PromptReply::Line(answer) => Ok(matches!(answer.as_str(), "y" | "yes")),
            PromptReply::Eof => Ok(false),
            PromptReply::Interrupted => {
                Err(Failure::new(Exit::Interrupted, "interrupted: nothing was changed").into())
            }
        }
    }
}
