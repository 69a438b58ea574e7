//! One run: starts, monitors and restarts the agent, reports events to the hub, and cleans up at the end.

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
use super::token_issuer::{RunTokenRequest, TokenIssuer};
use super::{print_note, reap, session_events};
use crate::output;

/// Backoff before a crashed agent is restarted.
const RESTART_BACKOFF: Duration = Duration::from_secs(1);
const MAX_RESTART_BACKOFF: Duration = Duration::from_secs(30);
/// Interval between reports to the hub, which grows up to a maximum.
const REPORT_INTERVAL: Duration = Duration::from_millis(150);
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(3);
/// Time limit for a request to the hub while the agent runs.
const HUB_TIMEOUT: Duration = Duration::from_secs(10);

/// One run of an agent, with its restarts.
pub(super) struct AgentRun<'a> {
    pub(super) args: &'a [OsString],
    pub(super) kind: AgentKind,
    pub(super) program: PathBuf,
    pub(super) restarts: u32,
    pub(super) quiet: bool,
    pub(super) settings: ProfileRun,
    pub(super) system_prompt: Option<String>,
    pub(super) conversation: AgentConversation,
    pub(super) environment: &'a Environment,
    pub(super) issuer: &'a TokenIssuer,
    pub(super) agent_name: String,
    pub(super) node: Option<String>,
    pub(super) runs: RunFolders,
    /// `None` if the agent is not connected to the hub.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) token: watch::Sender<Option<Secret>>,
    pub(super) notes: Vec<String>,
}

/// State shared by the agent's loop and the background tasks. No borrow is held across an `.await`.
struct Shared {
    record: RefCell<RunRecord>,
    folder: RunFolder,
}

impl Shared {
    /// Changes the record and stores it.
    fn update(&self, change: impl FnOnce(&mut RunRecord)) {
        let mut record = self.record.borrow_mut();
        change(&mut record);
        if let Err(error) = self.folder.save(&record) {
            tracing::warn!(%error, "cannot write the record of this run");
        }
    }

    fn add_event(&self, state: &str, ending: Option<AgentExit>) {
        let event = RunEvent { state: state.to_owned(), at: Timestamp::now(), ending };
        self.update(|record| record.events.push(event));
    }
}

impl AgentRun<'_> {
    pub(super) async fn run(self, record: RunRecord, mut signals: Signals) -> anyhow::Result<ExitCode> {
        let token = record.token;
        let folder = match self.runs.create(&record.id) {
            Ok(folder) => folder,
            Err(error) => {
                if let Some(token) = token {
                    let _ = self.issuer.revoke(token).await;
                }
                return Err(error).context("cannot create a folder for this run");
            }
        };
        let shared = Shared { record: RefCell::new(record), folder };
        shared.update(|_| {});
        let ended = tokio::select! {
            ended = self.run_agent(&shared, &mut signals) => ended,
            () = self.run_background(&shared) => Err(anyhow::anyhow!("the background task of the run ended")),
        };
        let Shared { record, folder } = shared;
        self.finish(record.into_inner(), folder).await;
        ended
    }

    /// Runs the agent until it ends without a crash or has used up its restarts.
    async fn run_agent(&self, shared: &Shared, signals: &mut Signals) -> anyhow::Result<ExitCode> {
        let mut backoff = RESTART_BACKOFF;
        for attempt in 0.. {
            let command = self.command(shared, attempt > 0)?;
            let mut agent = RunningAgent::start(&command)
                .with_context(|| format!("cannot start {}", self.program.display()))?;
            shared.update(|record| {
                record.state = RunState::Running;
                record.process = Some(agent.id.clone());
                record.own_group = agent.own_group;
            });
            shared.add_event(if attempt == 0 { "started" } else { "restarted" }, None);
            let ending = agent.wait(signals).await.context("cannot wait for the agent")?;
            self.find_codex_thread(shared, true);
            let stop_requested = agent.stop_requested || shared.folder.is_stop_requested();
            let crashed = ending.is_crash() && !stop_requested;
            let state = match (stop_requested, crashed) {
                (true, _) => "stopped",
                (false, true) => "crashed",
                (false, false) => "exited",
            };
            shared.add_event(state, Some(ending));
            let exit_code = ExitCode::from(ending.exit_code());
            if !crashed {
                return Ok(exit_code);
            }
            if attempt >= self.restarts {
                print_note(self.quiet, &format!("{} crashed: {ending}", self.agent_name));
                return Ok(exit_code);
            }
            print_note(self.quiet, &format!("{} crashed: {ending}; restarting it", self.agent_name));
            shared.update(|record| record.state = RunState::Restarting);
            tokio::select! {
                () = tokio::time::sleep(backoff) => {}
                _ = signals.next() => return Ok(exit_code),
            }
            if shared.folder.is_stop_requested() {
                return Ok(exit_code);
            }
            backoff = (backoff * 2).min(MAX_RESTART_BACKOFF);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The command that starts the agent, with its injected configuration.
    fn command(&self, shared: &Shared, is_restart: bool) -> anyhow::Result<AgentCommand> {
        let id = shared.record.borrow().id.clone();
        let key_variable = format!("{}{:08X}_KEY", env::RUN_PREFIX, plexus_proxy::runner::random_id());
        let hub = self
            .endpoint
            .as_ref()
            .map(|endpoint| HubAccess { url: endpoint.url.clone(), key_variable: key_variable.clone() });
        let resume = is_restart
            && self.conversation.id().is_some_and(|id| can_resume(self.kind, id, self.environment));
        let setup = AgentSetup {
            run: &id,
            program: &self.program,
            folder: &shared.folder,
            hub: hub.as_ref(),
            conversation: &self.conversation,
            settings: &self.settings,
            system_prompt: self.system_prompt.as_deref(),
            args: self.args,
            environment: self.environment,
            resume,
        };
        let InjectedConfig { mut args, env, notes } =
            inject(self.kind, &setup).context("cannot prepare the agent's configuration")?;
        args.extend(self.args.iter().cloned());
        if !is_restart {
            self.announce(&shared.record.borrow(), &notes);
        }
        let key = self.endpoint.as_ref().map(|endpoint| (key_variable, endpoint.secret.clone()));
        let removed_variables = self.environment.withheld_from_agents();
        Ok(AgentCommand { program: self.program.clone(), args, env, key, removed_variables })
    }

    /// Prints a line about the run, and notes for the user.
    fn announce(&self, record: &RunRecord, notes: &[String]) {
        let session = match (record.session_key(), &record.conversation) {
            (Some(key), _) => key,
            (None, Some(name)) => name.clone(),
            (None, None) => "chosen by the agent".to_owned(),
        };
        print_note(
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
            print_note(self.quiet, note);
        }
    }

    /// Cleans up after abandoned runs, then reports events of this run to the hub. Never returns.
    async fn run_background(&self, shared: &Shared) {
        // Start the agent first.
        tokio::time::sleep(REPORT_INTERVAL).await;
        reap::clean_up(&self.runs, Some(self.issuer)).await;
        let mut interval = REPORT_INTERVAL;
        loop {
            self.find_codex_thread(shared, false);
            if let Err(error) = self.report(shared).await {
                tracing::debug!(%error, "cannot report the events of this run now");
            }
            tokio::time::sleep(interval).await;
            interval = (interval * 2).min(MAX_REPORT_INTERVAL);
        }
    }

    /// Creates the token if the hub was unreachable before, and reports new events.
    async fn report(&self, shared: &Shared) -> anyhow::Result<()> {
        let mut record = shared.record.borrow().clone();
        if record.token.is_none() && self.endpoint.is_some() {
            let (agent, profile, node) = (self.agent_name.as_str(), None, self.node.as_deref());
            let request = RunTokenRequest { agent, profile, node, renewed: true };
            let token = tokio::time::timeout(HUB_TIMEOUT, self.issuer.create_run_token(&request)).await??;
            shared.update(|record| {
                record.token = Some(token.jti);
                record.token_name = Some(token.name.clone());
            });
            self.token.send_replace(Some(token.secret));
            record = shared.record.borrow().clone();
        }
        if record.reported >= record.events.len() || record.token_name.is_none() {
            return Ok(());
        }
        let token = self.token.borrow().clone();
        let reported = session_events::report(self.issuer, token.as_ref(), &mut record, false);
        if tokio::time::timeout(HUB_TIMEOUT, reported).await?? {
            shared.update(|current| {
                current.reported = current.reported.max(record.reported);
                current.client = record.client;
            });
        }
        Ok(())
    }

    /// Codex chooses the id of its thread itself; it is read from the transcript.
    fn find_codex_thread(&self, shared: &Shared, ended: bool) {
        let (process, started) = {
            let record = shared.record.borrow();
            if self.kind != AgentKind::Codex || record.conversation.is_some() {
                return;
            }
            (record.process.as_ref().map(|process| process.pid), record.started_at)
        };
        let home = self.environment.get_by_name("CODEX_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(self.environment.get(env::HOME)?).join(".codex")));
        let thread = match ended {
            false => process.and_then(codex_thread),
            true => home
                .zip(std::env::current_dir().ok())
                .and_then(|(home, folder)| ended_codex_thread(&home, SystemTime::from(started), &folder)),
        };
        if thread.is_some() {
            shared.update(|record| record.conversation = thread);
        }
    }

    /// Cleans up: removes the agent's files, reports the end and revokes the token. If the hub does not answer, a later
    /// command does the rest.
    async fn finish(&self, mut record: RunRecord, folder: RunFolder) {
        record.state = RunState::Ended;
        folder.remove_agent_files();
        if let Err(error) = folder.save(&record) {
            tracing::warn!(%error, "cannot write the record of this run");
        }
        // The proxy needs the token until it has stopped.
        let waiting = match &self.endpoint {
            Some(endpoint) => endpoint.close().await,
            None => 0,
        };
        if waiting > 0 {
            output::note(&format!(
                "plexus: writes of {} waiting for the hub: {waiting}. Its next run delivers them: `plexus outbox list`",
                self.agent_name
            ));
        }
        let token = self.token.borrow().clone();
        if record.token_name.is_none() {
            // The run has never had a token, so the hub knows nothing of it.
            record.reported = record.events.len();
        } else if !reap::settle(self.issuer, token.as_ref(), &mut record).await {
            output::note(&format!(
                "plexus: the hub does not answer; `plexus ps` later reports the end of run {} and revokes its token",
                record.id
            ));
        }
        reap::release(folder, &record);
    }
}
