//! Connects agents, keeps their instructions, and takes all of it out again.
//!
//! - One process at a time changes files of agents, by a lock beside the ledger.
//! - A change is planned on what a file holds, shown, and then made on what it holds by then: when an agent has rewritten its
//!   file in between, the same change is made to that.
//! - The ledger has a change before the file has it. After a crash, what the file holds says whether it was made.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plexus_kit::{Clock, Environment, private_file};

use crate::agents::{Agent, Manner, Scope, choose};
use crate::block;
use crate::bundle::Bundle;
use crate::entry::{self, Policy, Wanted};
use crate::error::BridgeError;
use crate::ledger::{Backup, Connection, Ledger, Part, Pending, Record, Trouble, remove_backups};
use crate::place::{Found, Place, hash};
use crate::recovery;
use crate::replace::{Replaced, Steps, Unwatched, replace, take_away};

/// Where the ledger and the copies are, in a data folder.
pub const FOLDER: &str = "connect";
const LOCK: &str = "lock";
/// For another process to be done.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// How often a file may be rewritten under our hands.
const TRIES: usize = 10;
/// Name of the entry, everywhere.
pub const SERVER: &str = "plexus";

/// How an agent starts the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    pub program: String,
    pub args: Vec<String>,
}

/// The files of the agents of one user.
#[derive(Clone)]
pub struct Bridge {
    folder: PathBuf,
    environment: Environment,
    clock: Clock,
    steps: Arc<dyn Steps>,
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// One file as it is and as it would be.
#[derive(Debug, Clone)]
pub struct Change {
    pub path: PathBuf,
    /// None: it is not there.
    pub before: Option<String>,
    /// None: it will not be there.
    pub after: Option<String>,
    key: String,
    place: Place,
    edit: Edit,
    policy: Policy,
}

impl Change {
    /// Whether the file changes by it.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.before != self.after
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Enter(Wanted),
    Write {
        content: String,
        asked: bool,
    },
    Own {
        content: String,
    },
    /// What is ours goes.
    Leave,
    /// Others need it still.
    Forget,
    Put {
        text: String,
    },
}

/// What is to be done for an agent, and what cannot.
#[derive(Debug, Default)]
pub struct Plan {
    pub changes: Vec<Change>,
    pub problems: Vec<BridgeError>,
}

/// What belongs in the instructions of agents.
#[derive(Debug, Clone, Default)]
pub struct Content {
    pub bundle: Bundle,
    /// Most bytes of it in one file.
    pub most: usize,
}

impl Content {
    /// What these files of a workspace hold.
    #[must_use]
    pub fn read(workspace: &Path, files: &[String], most: usize) -> Self {
        Self { bundle: Bundle::read(workspace, files), most }
    }
}

impl Bridge {
    /// `folder` is where the ledger and the copies are kept.
    #[must_use]
    pub fn new(folder: &Path, environment: &Environment, clock: Clock) -> Self {
        Self {
            folder: folder.to_owned(),
            environment: environment.clone(),
            clock,
            steps: Arc::new(Unwatched),
        }
    }

    /// The same with somebody who watches.
    #[must_use]
    pub fn watched(self, steps: Arc<dyn Steps>) -> Self {
        Self { steps, ..self }
    }

    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// What is known, without waiting for anybody.
    pub fn ledger(&self) -> Result<Ledger, BridgeError> {
        Ledger::read(&self.folder)
    }

    /// What tells one connection from another.
    #[must_use]
    pub fn key(agent: &Agent, scope: &Scope) -> String {
        match scope {
            Scope::User => agent.id.to_owned(),
            Scope::Project(folder) => format!("{}@{}", agent.id, folder.display()),
        }
    }

    /// What connecting an agent would change.
    pub fn plan_connect(
        &self,
        agent: &'static Agent,
        scope: &Scope,
        wiring: &Wiring,
        content: Option<&Content>,
        policy: Policy,
    ) -> Result<Plan, BridgeError> {
        let ledger = self.ledger()?;
        let mut plan = Plan::default();
        let key = Self::key(agent, scope);
        if let Some(servers) = agent.servers(scope) {
            let keys = agent.keys.iter().chain(&[SERVER]).map(|key| (*key).to_owned()).collect();
            let value = agent.entry(&wiring.program, &wiring.args);
            let edit = Edit::Enter(Wanted { syntax: servers.syntax, keys, value });
            let place = choose(servers.files, &self.environment, scope);
            self.add(&mut plan, &ledger, &key, place, edit, policy);
        }
        if let Some(content) = content.filter(|content| !content.bundle.is_empty()) {
            self.add_instructions(&mut plan, &ledger, agent, scope, content, policy, true);
        }
        Ok(plan)
    }

    /// What disconnecting would change.
    pub fn plan_disconnect(&self, key: &str, policy: Policy) -> Result<Plan, BridgeError> {
        let ledger = self.ledger()?;
        let mut plan = Plan::default();
        let Some(connection) = ledger.connections.get(key) else { return Ok(plan) };
        for record in &connection.files {
            let edit = if ledger.is_shared(&record.path, key) { Edit::Forget } else { Edit::Leave };
            let place = self.place_of(connection, &record.path).map(Some);
            self.add(&mut plan, &ledger, key, place, edit, policy);
        }
        Ok(plan)
    }

    /// What the instructions of a connection need.
    fn plan_sync(&self, ledger: &Ledger, key: &str, content: &Content) -> Plan {
        let mut plan = Plan::default();
        let Some(connection) = ledger.connections.get(key) else { return plan };
        let Some(agent) = Agent::named(&connection.agent) else { return plan };
        let scope = scope_of(connection);
        if !content.bundle.is_empty() {
            self.add_instructions(&mut plan, ledger, agent, &scope, content, Policy::Skip, false);
            return plan;
        }
        let texts = connection.files.iter().filter(|record| !matches!(record.part, Part::Entry { .. }));
        for record in texts {
            let edit = if ledger.is_shared(&record.path, key) { Edit::Forget } else { Edit::Leave };
            let place = self.place_of(connection, &record.path).map(Some);
            self.add(&mut plan, ledger, key, place, edit, Policy::Skip);
        }
        plan
    }

    /// What putting a copy back would change.
    pub fn plan_restore(&self, id: &str) -> Result<Change, BridgeError> {
        let ledger = self.ledger()?;
        let (backup, text) = ledger.backup(&self.folder, id)?;
        let connected =
            ledger.connections.iter().find(|(_, c)| c.files.iter().any(|file| file.path == backup.path));
        let (key, place) = match connected {
            Some((key, connection)) => (key.clone(), self.place_of(connection, &backup.path)?),
            None => (String::new(), self.place_of_known(&backup.path)?),
        };
        self.change(&ledger, &key, place, Edit::Put { text }, Policy::Replace)
    }

    #[allow(clippy::too_many_arguments)]
    fn add_instructions(
        &self,
        plan: &mut Plan,
        ledger: &Ledger,
        agent: &Agent,
        scope: &Scope,
        content: &Content,
        policy: Policy,
        asked: bool,
    ) {
        let Some(instructions) = agent.instructions(scope) else { return };
        let most = instructions.most.unwrap_or(content.most).min(content.most);
        let text = content.bundle.rendered(most);
        let edit = match instructions.manner {
            Manner::Block => Edit::Write { content: text, asked },
            Manner::Own { front } => Edit::Own { content: format!("{front}\n{text}\n") },
        };
        let key = Self::key(agent, scope);
        // One that was written stays where it is, whatever else has come up beside it.
        let known = ledger.connections.get(&key).and_then(|connection| {
            let text = connection.files.iter().find(|record| !matches!(record.part, Part::Entry { .. }))?;
            Some(self.place_of(connection, &text.path).map(Some))
        });
        let place = known.unwrap_or_else(|| choose(instructions.files, &self.environment, scope));
        self.add(plan, ledger, &key, place, edit, policy);
    }

    fn add(
        &self,
        plan: &mut Plan,
        ledger: &Ledger,
        key: &str,
        place: Result<Option<Place>, BridgeError>,
        edit: Edit,
        policy: Policy,
    ) {
        let change = match place {
            Ok(Some(place)) => self.change(ledger, key, place, edit, policy),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match change {
            Ok(change) => plan.changes.push(change),
            Err(error) => plan.problems.push(error),
        }
    }

    fn change(
        &self,
        ledger: &Ledger,
        key: &str,
        place: Place,
        edit: Edit,
        policy: Policy,
    ) -> Result<Change, BridgeError> {
        let path = place.path();
        let found = place.read()?;
        let (after, _) = self.computed(ledger, &path, found.as_ref(), &edit, policy)?;
        Ok(Change {
            path,
            before: found.map(|found| found.text),
            after,
            key: key.to_owned(),
            place,
            edit,
            policy,
        })
    }

    /// What a file becomes by an edit, and what is ours in it then.
    fn computed(
        &self,
        ledger: &Ledger,
        path: &Path,
        found: Option<&Found>,
        edit: &Edit,
        policy: Policy,
    ) -> Result<(Option<String>, Option<Part>), BridgeError> {
        let record = ledger.record(path);
        let known = record.map(|record| &record.part);
        let text = found.map_or("", |found| found.text.as_str());
        let insist = policy == Policy::Replace;
        match edit {
            Edit::Enter(wanted) => {
                entry::connect(path, text, wanted, known, policy).map(|(text, part)| (Some(text), Some(part)))
            }
            Edit::Write { content, asked } => {
                let insist = insist || (*asked && !block::has_marks(text));
                let written = block::write(path, text, content, known, insist)?;
                Ok((Some(written.0), Some(written.1)))
            }
            Edit::Own { content } => {
                let ours = match (found, record) {
                    (None, _) => true,
                    (Some(found), Some(record)) => found.hash == record.hash,
                    (Some(found), None) => found.text == *content,
                };
                if !ours && !insist {
                    return Err(BridgeError::conflict(
                        path,
                        "is not as Plexus has written it",
                        "move it away; `plexus connect --policy replace` writes it anew",
                    ));
                }
                Ok((Some(content.clone()), Some(Part::Own)))
            }
            Edit::Leave => self.left(ledger, path, found, insist).map(|text| (text, None)),
            Edit::Forget => Ok((found.map(|found| found.text.clone()), None)),
            Edit::Put { text } => {
                let kept = known.filter(|part| {
                    entry::is_current(text, part).or_else(|| block::is_current(path, text, part))
                        == Some(true)
                });
                Ok((Some(text.clone()), kept.cloned()))
            }
        }
    }

    /// A file without what is ours.
    fn left(
        &self,
        ledger: &Ledger,
        path: &Path,
        found: Option<&Found>,
        insist: bool,
    ) -> Result<Option<String>, BridgeError> {
        let (Some(found), Some(record)) = (found, ledger.record(path)) else {
            return Ok(found.map(|found| found.text.clone()));
        };
        if found.hash == record.hash {
            // Nobody else was here since.
            match &record.before {
                None => return Ok(None),
                Some(before) => {
                    if let Ok((_, text)) = ledger.backup(&self.folder, before) {
                        return Ok(Some(text));
                    }
                }
            }
        }
        let text = match &record.part {
            part @ Part::Entry { .. } => {
                let policy = if insist { Policy::Replace } else { Policy::Skip };
                entry::disconnect(path, &found.text, part, policy)?
            }
            part @ Part::Block { .. } => block::erase(path, &found.text, part, insist)?,
            Part::Own if insist => return Ok(None),
            Part::Own => {
                return Err(BridgeError::conflict(
                    path,
                    "is not as Plexus has written it",
                    "`--policy replace` removes it all the same",
                ));
            }
        };
        // What was made for our sake, and has nothing else in it, goes.
        let hollow = ["", "{}"].contains(&text.split_whitespace().collect::<String>().as_str());
        Ok((record.before.is_some() || !hollow).then_some(text))
    }

    /// Makes a change. What the file holds by now is what it is made to.
    pub fn apply(&self, change: &Change, connection: Option<&Connection>) -> Result<bool, BridgeError> {
        private_file::create_dir(&self.folder).map_err(BridgeError::io(&self.folder, "make the folder"))?;
        let _lock = self.lock()?;
        let mut ledger = self.recovered()?;
        if let Some(connection) = connection {
            ledger.connections.entry(change.key.clone()).or_insert_with(|| connection.clone());
        }
        for _ in 0..TRIES {
            let found = change.place.read()?;
            let (after, part) =
                self.computed(&ledger, &change.path, found.as_ref(), &change.edit, change.policy)?;
            let before = found.as_ref().map(|found| &found.text);
            let known = ledger.record(&change.path).cloned();
            if matches!(change.edit, Edit::Forget) {
                if let Some(connection) = ledger.connections.get_mut(&change.key) {
                    connection.files.retain(|record| record.path != change.path);
                }
                ledger.write(&self.folder)?;
                return Ok(false);
            }
            let now = self.clock.now();
            let kept = match before {
                Some(text) if before != after.as_ref() || known.is_none() => {
                    self.steps.about_to("keep a copy");
                    Some(ledger.back_up(&self.folder, &change.path, text, now)?)
                }
                _ => None,
            };
            let record = match (part, &after) {
                (Some(part), Some(text)) => Some(Record {
                    path: change.path.clone(),
                    part,
                    hash: hash(text.as_bytes()),
                    before: known.as_ref().map_or(kept, |known| known.before.clone()),
                    made: known.as_ref().map_or_else(|| change.place.missing(), |known| known.made.clone()),
                    written_at: now,
                }),
                _ => None,
            };
            if before == after.as_ref() {
                // Nothing to write; whether that is known is another matter.
                let same =
                    |known: &Record, record: &Record| known.part == record.part && known.hash == record.hash;
                if !matches!((&known, &record), (Some(known), Some(record)) if same(known, record))
                    || connection.is_some()
                {
                    ledger.settle(&change.key, &change.path, record.as_ref());
                    self.steps.about_to("write the ledger");
                    ledger.write(&self.folder)?;
                }
                return Ok(false);
            }
            let beside = format!(".{}.plexus-{:08x}", file_name(&change.path), rand::random::<u32>());
            ledger.pending = Some(Pending {
                connection: change.key.clone(),
                root: change.place.root().to_owned(),
                below: change.place.below().to_owned(),
                beside: beside.clone(),
                from: found.as_ref().map(|found| found.hash.clone()),
                to: after.as_ref().map(|text| hash(text.as_bytes())),
                path: change.path.clone(),
                record: record.clone(),
            });
            self.steps.about_to("write what is pending");
            ledger.write(&self.folder)?;
            let made = self.made(change, found.as_ref(), after.as_deref(), &beside);
            if !matches!(made, Ok(Replaced::Done)) {
                ledger.pending = None;
                ledger.write(&self.folder)?;
            }
            match made? {
                Replaced::Changed => continue,
                Replaced::Done => {}
            }
            ledger.pending = None;
            ledger.settle(&change.key, &change.path, record.as_ref());
            let old = ledger.forget_old_backups(&change.path);
            self.steps.about_to("write the ledger");
            ledger.write(&self.folder)?;
            remove_backups(&self.folder, &old);
            if after.is_none() {
                recovery::remove_folders(known.as_ref().map_or(&[], |known| &known.made));
            }
            self.steps.about_to("end");
            return Ok(true);
        }
        Err(BridgeError::Restless(change.path.clone()))
    }

    fn made(
        &self,
        change: &Change,
        found: Option<&Found>,
        after: Option<&str>,
        beside: &str,
    ) -> Result<Replaced, BridgeError> {
        let steps = self.steps.as_ref();
        let Some(folder) = change.place.folder(after.is_some())? else { return Ok(Replaced::Changed) };
        match (found, after) {
            (_, Some(text)) => replace(&change.place, &folder, found, text, beside, steps),
            (Some(found), None) => take_away(&change.place, &folder, found, beside, steps),
            (None, None) => Ok(Replaced::Done),
        }
    }

    /// Changes what is known of a connection; true if it was there.
    pub fn update(&self, key: &str, change: impl FnOnce(&mut Connection)) -> Result<bool, BridgeError> {
        if self.ledger()?.connections.is_empty() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let mut ledger = self.recovered()?;
        let Some(connection) = ledger.connections.get_mut(key) else { return Ok(false) };
        let before = connection.clone();
        change(connection);
        if *connection != before {
            ledger.write(&self.folder)?;
        }
        Ok(true)
    }

    /// Forgets a connection of which nothing is left in any file; true if it is gone.
    pub fn forget(&self, key: &str) -> Result<bool, BridgeError> {
        let _lock = self.lock()?;
        let mut ledger = self.recovered()?;
        if ledger.connections.get(key).is_some_and(|connection| connection.files.is_empty()) {
            ledger.connections.remove(key);
            ledger.write(&self.folder)?;
        }
        Ok(!ledger.connections.contains_key(key))
    }

    /// Brings the instructions of all connections that are not paused, or of one, to what they should be.
    pub fn sync(&self, content: &Content, only: Option<&str>) -> Result<Synced, BridgeError> {
        let mut synced = Synced::default();
        if self.ledger()?.pending.is_some() {
            let _lock = self.lock()?;
            self.recovered()?;
        }
        let ledger = self.ledger()?;
        for (key, connection) in &ledger.connections {
            let meant = only.is_none_or(|only| only == key) && connection.instructions;
            if !meant || (connection.paused && only.is_none()) {
                continue;
            }
            synced.agents += 1;
            let mut plan = self.plan_sync(&ledger, key, content);
            let mut problems = std::mem::take(&mut plan.problems);
            for change in plan.changes {
                match self.apply(&change, None) {
                    Ok(true) => synced.written.push(change.path),
                    Ok(false) => {}
                    Err(error) => problems.push(error),
                }
            }
            let troubles: Vec<Trouble> = problems.iter().map(Trouble::of).collect();
            synced.problems.extend(problems);
            let now = self.clock.now();
            self.update(key, |connection| {
                connection.troubles = troubles;
                connection.last_sync_at = Some(now);
            })?;
        }
        Ok(synced)
    }

    /// The copies that there are, newest first.
    pub fn backups(&self) -> Result<Vec<Backup>, BridgeError> {
        let mut backups = self.ledger()?.backups;
        backups.reverse();
        Ok(backups)
    }

    /// Waits for its turn.
    fn lock(&self) -> Result<File, BridgeError> {
        let path = self.folder.join(LOCK);
        let file = private_file::open(&path).map_err(BridgeError::io(&path, "open"))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => std::thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => return Err(BridgeError::Busy(PATIENCE.as_secs())),
                Err(TryLockError::Error(error)) => return Err(BridgeError::io(&path, "lock")(error)),
            }
        }
    }

    /// The ledger, after what a crash has left was settled.
    fn recovered(&self) -> Result<Ledger, BridgeError> {
        let mut ledger = self.ledger()?;
        if let Some(pending) = ledger.pending.take() {
            recovery::settle(&mut ledger, &pending)?;
            ledger.write(&self.folder)?;
        }
        Ok(ledger)
    }

    /// A file of a connection, within what its agent may have.
    pub(crate) fn place_of(&self, connection: &Connection, path: &Path) -> Result<Place, BridgeError> {
        let scope = scope_of(connection);
        let agent = Agent::named(&connection.agent);
        let places = agent.into_iter().flat_map(|agent| agent.places(&self.environment, &scope));
        places.into_iter().find(|place| place.path() == path).ok_or_else(|| not_allowed(path))
    }

    /// The same for a file of nobody's any more.
    fn place_of_known(&self, path: &Path) -> Result<Place, BridgeError> {
        let agents = crate::agents::AGENTS.iter();
        let places = agents.flat_map(|agent| agent.places(&self.environment, &Scope::User));
        places.into_iter().find(|place| place.path() == path).ok_or_else(|| not_allowed(path))
    }
}

fn not_allowed(path: &Path) -> BridgeError {
    BridgeError::refused(
        path,
        "is no file of an agent as the environment says now",
        "set the variables that say where the agent keeps its files as they were",
    )
}

/// What a sync did.
#[derive(Debug, Default)]
pub struct Synced {
    pub agents: usize,
    pub written: Vec<PathBuf>,
    pub problems: Vec<BridgeError>,
}

impl Trouble {
    #[must_use]
    pub fn of(error: &BridgeError) -> Self {
        let path = match error {
            BridgeError::Refused { path, .. }
            | BridgeError::Conflict { path, .. }
            | BridgeError::Io { path, .. } => path,
            BridgeError::Restless(path) | BridgeError::Ledger { path, .. } => path,
            BridgeError::Busy(_) | BridgeError::NoBackup(_) => Path::new(""),
        };
        Self {
            path: path.to_owned(),
            why: error.to_string(),
            fix: error.fix(),
            conflict: error.is_conflict(),
        }
    }
}

pub(crate) fn scope_of(connection: &Connection) -> Scope {
    connection.project.clone().map_or(Scope::User, Scope::Project)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().trim_start_matches('.').to_owned()).unwrap_or_default()
}
