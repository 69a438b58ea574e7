//! The run itself: the agent is started, watched and started again, the hub is told, and everything is given back.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use plexus_kit::{Environment, Secret, env};
use plexus_proto::Timestamp;
use plexus_proto::api::ProfileRun;
use plexus_proxy::runner::{
    AgentCommand, AgentConversation, AgentExit, AgentKind, AgentSetup, HubAccess, InjectedConfig, RunEvent,
    RunFolder, RunFolders, RunRecord, RunState, RunningAgent, Signals, can_resume, codex_thread,
    ended_codex_thread, inject,
};
use tokio::sync::watch;

use super::endpoint::Endpoint;
use super::maker::{Maker, Wish};
use super::{journal, reap, remark};
use crate::output;

/// Before an agent that crashed is started again: the first time, and at most.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Between two looks at what the agent does: at first, and later.
const LOOK: Duration = Duration::from_millis(150);
const LONGEST_LOOK: Duration = Duration::from_secs(3);
/// For the hub to answer while the agent runs.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Work<'a> {
    pub(super) args: &'a [OsString],
    pub(super) kind: AgentKind,
    pub(super) program: PathBuf,
    pub(super) restarts: u32,
    pub(super) quiet: bool,
    pub(super) settings: ProfileRun,
    pub(super) system_prompt: Option<String>,
    pub(super) conversation: AgentConversation,
    pub(super) environment: &'a Environment,
    pub(super) maker: &'a Maker,
    pub(super) agent_name: String,
    pub(super) node: Option<String>,
    pub(super) runs: RunFolders,
    /// None: the agent is not connected.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) token: watch::Sender<Option<Secret>>,
    pub(super) notes: Vec<String>,
}

/// What the agent and those who watch it share. No borrow of it is held while something is waited for.
struct Shared {
    record: RefCell<RunRecord>,
    scratch: RunFolder,
}

impl Shared {
    /// Changes the record and keeps it.
    fn change(&self, change: impl FnOnce(&mut RunRecord)) {
        let mut record = self.record.borrow_mut();
        change(&mut record);
        if let Err(error) = self.scratch.save(&record) {
            tracing::warn!(%error, "the record of this run cannot be written");
        }
    }

    fn happened(&self, state: &str, ending: Option<AgentExit>) {
        let event = RunEvent { state: state.to_owned(), at: Timestamp::now(), ending };
        self.change(|record| record.events.push(event));
    }
}

impl Work<'_> {
    pub(super) async fn run(self, record: RunRecord, mut signals: Signals) -> anyhow::Result<ExitCode> {
        let token = record.token;
        let scratch = match self.runs.create(&record.id) {
            Ok(scratch) => scratch,
            Err(error) => {
                if let Some(token) = token {
                    let _ = self.maker.revoke(token).await;
                }
                return Err(error).context("cannot make a folder for this run");
            }
        };
        let shared = Shared { record: RefCell::new(record), scratch };
        shared.change(|_| {});
        let ended = tokio::select! {
            ended = self.attempts(&shared, &mut signals) => ended,
            () = self.beside(&shared) => Err(anyhow::anyhow!("nothing is left to be done beside the agent")),
        };
        let Shared { record, scratch } = shared;
        self.finish(record.into_inner(), scratch).await;
        ended
    }

    /// Starts the agent until it ends as it should, or has crashed too often.
    async fn attempts(&self, shared: &Shared, signals: &mut Signals) -> anyhow::Result<ExitCode> {
        let mut pause = PAUSE;
        for attempt in 0.. {
            let launch = self.launch(shared, attempt > 0)?;
            let mut agent = RunningAgent::start(&launch)
                .with_context(|| format!("cannot start {}", self.program.display()))?;
            shared.change(|record| {
                record.state = RunState::Running;
                record.process = Some(agent.id.clone());
                record.own_group = agent.own_group;
            });
            shared.happened(if attempt == 0 { "started" } else { "restarted" }, None);
            let ending = agent.wait(signals).await.context("cannot wait for the agent")?;
            self.look_for_thread(shared, true);
            let asked = agent.stop_requested || shared.scratch.is_stop_requested();
            let crashed = ending.is_crash() && !asked;
            let state = match (asked, crashed) {
                (true, _) => "stopped",
                (false, true) => "crashed",
                (false, false) => "exited",
            };
            shared.happened(state, Some(ending));
            let done = ExitCode::from(ending.exit_code());
            if !crashed {
                return Ok(done);
            }
            if attempt >= self.restarts {
                remark(self.quiet, &format!("{} crashed: {ending}", self.agent_name));
                return Ok(done);
            }
            remark(self.quiet, &format!("{} crashed: {ending}; it is started again", self.agent_name));
            shared.change(|record| record.state = RunState::Restarting);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = signals.next() => return Ok(done),
            }
            if shared.scratch.is_stop_requested() {
                return Ok(done);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Everything that the agent is started with.
    fn launch(&self, shared: &Shared, again: bool) -> anyhow::Result<AgentCommand> {
        let id = shared.record.borrow().id.clone();
        let key_variable = format!("{}{:08X}_KEY", env::RUN_FAMILY, plexus_proxy::runner::random_id());
        let hub = self
            .endpoint
            .as_ref()
            .map(|endpoint| HubAccess { url: endpoint.url.clone(), key_variable: key_variable.clone() });
        let begun =
            again && self.conversation.id().is_some_and(|id| can_resume(self.kind, id, self.environment));
        let wiring = AgentSetup {
            run: &id,
            program: &self.program,
            folder: &shared.scratch,
            hub: hub.as_ref(),
            conversation: &self.conversation,
            settings: &self.settings,
            system_prompt: self.system_prompt.as_deref(),
            args: self.args,
            environment: self.environment,
            resume: begun,
        };
        let InjectedConfig { mut args, env, notes } =
            inject(self.kind, &wiring).context("cannot prepare what the agent is given")?;
        args.extend(self.args.iter().cloned());
        if !again {
            self.announce(&shared.record.borrow(), &notes);
        }
        let key = self.endpoint.as_ref().map(|endpoint| (key_variable, endpoint.secret.clone()));
        let removed_variables = self.environment.kept_from_agents();
        Ok(AgentCommand { program: self.program.clone(), args, env, key, removed_variables })
    }

    /// One line about the run, and what a person should know.
    fn announce(&self, record: &RunRecord, notes: &[String]) {
        let session = match (record.session_key(), &record.conversation) {
            (Some(key), _) => key,
            (None, Some(name)) => name.clone(),
            (None, None) => "of its own".to_owned(),
        };
        remark(
            self.quiet,
            &format!(
                "run {}: {}, session {session}, hub {} ({})",
                record.id,
                self.agent_name,
                record.hub,
                record.via.as_str()
            ),
        );
        for note in self.notes.iter().chain(notes) {
            remark(self.quiet, note);
        }
    }

    /// What goes on while the agent runs: the hub is told, and those before us are cleared up after. Never ends.
    async fn beside(&self, shared: &Shared) {
        // The agent comes first.
        tokio::time::sleep(LOOK).await;
        reap::all(&self.runs, Some(self.maker)).await;
        let mut pause = LOOK;
        loop {
            self.look_for_thread(shared, false);
            if let Err(error) = self.keep_up(shared).await {
                tracing::debug!(%error, "the hub is not told now");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }

    /// Gets a token where the hub was away before, and tells it what it has not heard.
    async fn keep_up(&self, shared: &Shared) -> anyhow::Result<()> {
        let mut record = shared.record.borrow().clone();
        if record.token.is_none() && self.endpoint.is_some() {
            let (agent, profile, node) = (self.agent_name.as_str(), None, self.node.as_deref());
            let wish = Wish { agent, profile, node, renewed: true };
            let made = tokio::time::timeout(PATIENCE, self.maker.make(&wish)).await??;
            shared.change(|record| {
                record.token = Some(made.jti);
                record.token_name = Some(made.name.clone());
            });
            self.token.send_replace(Some(made.token));
            record = shared.record.borrow().clone();
        }
        if record.reported >= record.events.len() || record.token_name.is_none() {
            return Ok(());
        }
        let token = self.token.borrow().clone();
        let told = journal::tell(self.maker, token.as_ref(), &mut record, false);
        if tokio::time::timeout(PATIENCE, told).await?? {
            shared.change(|kept| {
                kept.reported = kept.reported.max(record.reported);
                kept.client = record.client;
            });
        }
        Ok(())
    }

    /// Codex makes its thread up; its transcript has the name of it.
    fn look_for_thread(&self, shared: &Shared, ended: bool) {
        let (process, started) = {
            let record = shared.record.borrow();
            if self.kind != AgentKind::Codex || record.conversation.is_some() {
                return;
            }
            (record.process.as_ref().map(|process| process.pid), record.started_at)
        };
        let home = self.environment.named("CODEX_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(self.environment.get(env::HOME)?).join(".codex")));
        let thread = match ended {
            false => process.and_then(codex_thread),
            true => home
                .zip(std::env::current_dir().ok())
                .and_then(|(home, folder)| ended_codex_thread(&home, SystemTime::from(started), &folder)),
        };
        if thread.is_some() {
            shared.change(|record| record.conversation = thread);
        }
    }

    /// Gives everything back. What the hub does not take now, the next run gives it.
    async fn finish(&self, mut record: RunRecord, scratch: RunFolder) {
        record.state = RunState::Ended;
        scratch.remove_agent_files();
        if let Err(error) = scratch.save(&record) {
            tracing::warn!(%error, "the record of this run cannot be written");
        }
        // Before its token is taken back.
        let waiting = match &self.endpoint {
            Some(endpoint) => endpoint.close().await,
            None => 0,
        };
        if waiting > 0 {
            output::note(&format!(
                "plexus: {waiting} writes of {} wait for the hub; its next run delivers them. `plexus outbox list` shows them",
                self.agent_name
            ));
        }
        let token = self.token.borrow().clone();
        if record.token_name.is_none() {
            // There never was a hub that could be told.
            record.reported = record.events.len();
        } else if !reap::settle(self.maker, token.as_ref(), &mut record).await {
            output::note(&format!(
                "plexus: the hub does not answer: `plexus ps` tells it later how run {} ended, and takes its token back",
                record.id
            ));
        }
        reap::release(scratch, &record);
    }
}
