//! Plans and applies a change to one file.
//!
//! The ledger records a change before the file is changed. After a crash, the file's content shows whether the change
//! was made.

use std::path::{Path, PathBuf};

use plexus_kit::private_file;

use super::{Bridge, POLL_INTERVAL};
use crate::confined_path::{ConfinedPath, FileContent, hash};
use crate::entry::{ConflictPolicy, DesiredEntry};
use crate::error::BridgeError;
use crate::ledger::{Connection, FileRecord, Ledger, ManagedPart, Pending, remove_backups};
use crate::replace::{ReplaceOutcome, remove_if_unchanged, replace};
use crate::{block, entry, recovery};

/// The number of attempts if other programs keep rewriting the file.
const MAX_ATTEMPTS: usize = 10;
const NOT_AS_WRITTEN: &str = "was changed since Plexus wrote it";

/// The current and the planned content of one file.
#[derive(Debug, Clone)]
pub struct Change {
    pub path: PathBuf,
    /// None if the file is missing.
    pub before: Option<String>,
    /// None if the file will be removed.
    pub after: Option<String>,
    /// Servers of the agent that are moved behind the hub, or restored.
    pub servers: Vec<String>,
    pub(super) key: String,
    pub(super) location: ConfinedPath,
    pub(super) edit: Edit,
    pub(super) policy: ConflictPolicy,
}

impl Change {
    /// Whether it changes the file.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.before != self.after
    }

    /// Whether it adds the hub's entry to the file.
    #[must_use]
    pub fn inserts_entry(&self) -> bool {
        matches!(self.edit, Edit::InsertEntry(_))
    }
}

#[derive(Debug, Clone)]
pub(super) enum Edit {
    InsertEntry(DesiredEntry),
    /// A block. If the user asked for it (`explicit`), it is added again even if it was removed by hand.
    WriteBlock {
        content: String,
        explicit: bool,
    },
    /// A separate file.
    WriteFile {
        content: String,
        explicit: bool,
    },
    /// Removes our content, unless another connection needs it.
    Remove,
    Restore {
        text: String,
    },
}

impl Bridge {
    /// The content of a file after an edit, and our content in it.
    pub(super) fn compute(
        &self,
        ledger: &Ledger,
        key: &str,
        path: &Path,
        current: Option<&FileContent>,
        (edit, policy): (&Edit, ConflictPolicy),
    ) -> Result<(Option<String>, Option<ManagedPart>), BridgeError> {
        let record = ledger.record(path);
        let recorded = record.map(|record| &record.part);
        let text = current.map_or("", |current| current.text.as_str());
        let overwrite = policy == ConflictPolicy::Replace;
        match edit {
            Edit::InsertEntry(desired) => entry::insert_entry(path, text, desired, recorded, policy)
                .map(|(text, part)| (Some(text), Some(part))),
            Edit::WriteBlock { content, explicit } => {
                let overwrite = overwrite || (*explicit && !block::has_markers(text));
                let written = block::write(path, text, content, recorded, overwrite)?;
                Ok((Some(written.0), Some(written.1)))
            }
            Edit::WriteFile { content, explicit } => {
                let why = match (current, record) {
                    (None, Some(_)) if !explicit => Some("was removed by somebody"),
                    (Some(current), Some(record)) if current.hash != record.hash => Some(NOT_AS_WRITTEN),
                    (Some(current), None) if current.text != *content => Some(NOT_AS_WRITTEN),
                    _ => None,
                };
                match why.filter(|_| !overwrite) {
                    None => Ok((Some(content.clone()), Some(ManagedPart::Own))),
                    Some(why) => Err(BridgeError::conflict(
                        path,
                        why,
                        "move it away; `plexus connect --policy replace` writes it anew",
                    )),
                }
            }
            Edit::Remove if ledger.is_shared(path, key) => {
                Ok((current.map(|current| current.text.clone()), None))
            }
            Edit::Remove => {
                self.content_without_ours(ledger, path, current, overwrite).map(|text| (text, None))
            }
            Edit::Restore { text } => {
                let backup = recorded.and_then(|part| match part {
                    // A file that we wrote earlier with other content is ours too.
                    ManagedPart::Entry { .. } => entry::entry_in_text(text, part),
                    part => (block::is_current(path, text, part) == Some(true)).then(|| part.clone()),
                });
                Ok((Some(text.clone()), backup))
            }
        }
    }

    /// Removes our content from a file.
    fn content_without_ours(
        &self,
        ledger: &Ledger,
        path: &Path,
        current: Option<&FileContent>,
        overwrite: bool,
    ) -> Result<Option<String>, BridgeError> {
        let (Some(current), Some(record)) = (current, ledger.record(path)) else {
            return Ok(current.map(|current| current.text.clone()));
        };
        let is_unchanged = current.hash == record.hash;
        // The file contains nothing that was not in it before.
        let is_ours = if record.part == ManagedPart::Own {
            is_unchanged || overwrite
        } else {
            is_unchanged && record.alone
        };
        if is_ours {
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
            part @ ManagedPart::Entry { .. } => {
                let policy = if overwrite { ConflictPolicy::Replace } else { ConflictPolicy::Skip };
                entry::remove_entry(path, &current.text, part, policy)?
            }
            part @ ManagedPart::Block { .. } => block::erase(path, &current.text, part, overwrite)?,
            // The backup is missing.
            ManagedPart::Own if is_ours => return Ok(None),
            ManagedPart::Own => {
                return Err(BridgeError::conflict(
                    path,
                    NOT_AS_WRITTEN,
                    "`--policy replace` removes it anyway",
                ));
            }
        };
        // A file created by us without other content is removed.
        let is_empty_text = ["", "{}"].contains(&text.split_whitespace().collect::<String>().as_str());
        Ok((record.before.is_some() || !is_empty_text).then_some(text))
    }

    /// Applies a change to the current content of the file.
    pub fn apply(&self, change: &Change, connection: Option<&Connection>) -> Result<bool, BridgeError> {
        private_file::create_dir(&self.folder).map_err(BridgeError::io(&self.folder, "make the folder"))?;
        let _lock = self.lock()?;
        let mut ledger = self.recover_ledger()?;
        if let Some(connection) = connection {
            ledger.connections.entry(change.key.clone()).or_insert_with(|| connection.clone());
        }
        let mut attempts =
            (0..MAX_ATTEMPTS).map(|_| self.try_apply(&mut ledger, change, connection.is_some()));
        let made = attempts.find_map(Result::transpose);
        let made = made.unwrap_or_else(|| Err(BridgeError::Restless(change.path.clone())));
        if let (Err(_), Some(pending)) = (&made, ledger.pending.take()) {
            recovery::recover(&mut ledger, &pending);
            // If this cannot be written, the next command recovers.
            let _ = ledger.write(&self.folder);
        }
        made
    }

    /// Whether the file was changed; none if another program has written it meanwhile.
    fn try_apply(
        &self,
        ledger: &mut Ledger,
        change: &Change,
        connects: bool,
    ) -> Result<Option<bool>, BridgeError> {
        let Change { path, key, location, edit, policy, .. } = change;
        let current = location.read()?;
        // An agent that writes in place has truncated it; its content is still being written.
        let was_empty = change.before.as_ref().is_none_or(String::is_empty);
        if !was_empty && current.as_ref().is_some_and(|current| current.text.is_empty()) {
            std::thread::sleep(POLL_INTERVAL);
            return Ok(None);
        }
        let (after, part) = self.compute(ledger, key, path, current.as_ref(), (edit, *policy))?;
        if matches!(edit, Edit::Remove) && ledger.is_shared(path, key) {
            ledger.forget_file(key, path);
            self.steps.before_step("write the ledger");
            ledger.write(&self.folder)?;
            return Ok(Some(false));
        }
        let before = current.as_ref().map(|current| &current.text);
        // The record of a removed file is obsolete.
        let recorded = ledger.record(path).filter(|_| current.is_some()).cloned();
        let now = self.clock.now();
        let backup = match before {
            Some(text) if before != after.as_ref() || recorded.is_none() => {
                self.steps.before_step("keep a copy");
                Some(ledger.back_up(&self.folder, path, text, now)?)
            }
            _ => None,
        };
        let is_unchanged =
            |recorded: &FileRecord| current.as_ref().is_some_and(|current| current.hash == recorded.hash);
        let record = part.zip(after.as_ref()).map(|(part, text)| FileRecord {
            path: path.clone(),
            part,
            hash: hash(text.as_bytes()),
            before: recorded.as_ref().map_or(backup, |recorded| recorded.before.clone()),
            // Content that was ours before the ledger recorded it is also in the backup.
            alone: recorded
                .as_ref()
                .map_or(before != after.as_ref(), |recorded| recorded.alone && is_unchanged(recorded))
                && !matches!(edit, Edit::Restore { .. }),
            made: recorded
                .as_ref()
                .map_or_else(|| ledger.created_folders(location), |recorded| recorded.made.clone()),
            written_at: now,
        });
        if before == after.as_ref() {
            // Nothing to write; the ledger may still need an update.
            let same = |recorded: &FileRecord, record: &FileRecord| {
                recorded.part == record.part && recorded.hash == record.hash
            };
            if !matches!((&recorded, &record), (Some(recorded), Some(record)) if same(recorded, record))
                || connects
            {
                ledger.set_record(key, path, record.as_ref());
                self.steps.before_step("write the ledger");
                ledger.write(&self.folder)?;
            }
            return Ok(Some(false));
        }
        let beside = format!(".{}.plexus-{:08x}", file_name(path), rand::random::<u32>());
        ledger.pending = Some(Pending {
            connection: key.clone(),
            root: location.root().to_owned(),
            below: location.below().to_owned(),
            beside: beside.clone(),
            from: current.as_ref().map(|current| current.hash.clone()),
            to: after.as_ref().map(|text| hash(text.as_bytes())),
            path: path.clone(),
            record: record.clone(),
        });
        self.steps.before_step("write what is pending");
        ledger.write(&self.folder)?;
        let old = ledger.record(path).map_or_else(Vec::new, |recorded| recorded.made.clone());
        if self.write_location(location, current.as_ref(), after.as_deref(), &beside)?
            == ReplaceOutcome::ChangedMeanwhile
        {
            // Nothing was changed, and no temporary file exists.
            ledger.pending = None;
            return Ok(None);
        }
        ledger.pending = None;
        ledger.set_record(key, path, record.as_ref());
        if after.is_none() {
            self.steps.before_step("remove the folders");
            recovery::remove_folders(&old);
        }
        let old = ledger.forget_old_backups(path);
        self.steps.before_step("write the ledger");
        ledger.write(&self.folder)?;
        remove_backups(&self.folder, &old);
        self.steps.before_step("end");
        Ok(Some(true))
    }

    fn write_location(
        &self,
        location: &ConfinedPath,
        current: Option<&FileContent>,
        after: Option<&str>,
        beside: &str,
    ) -> Result<ReplaceOutcome, BridgeError> {
        let steps = self.steps.as_ref();
        if after.is_some() {
            steps.before_step("make the folders");
        }
        let Some(folder) = location.folder(after.is_some())? else {
            return Ok(ReplaceOutcome::ChangedMeanwhile);
        };
        match (current, after) {
            (_, Some(text)) => replace(location, &folder, current, text, beside, steps),
            (Some(current), None) => remove_if_unchanged(location, &folder, current, beside, steps),
            (None, None) => Ok(ReplaceOutcome::Done),
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().trim_start_matches('.').to_owned()).unwrap_or_default()
}
