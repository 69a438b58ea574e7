//! Plans and applies a change to one file.
//!
//! The ledger records a change before the file is changed. After a crash, the file's content shows whether the change was made.

use std::path::{Path, PathBuf};

use plexus_kit::private_file;

use super::{Bridge, LOOK};
use crate::confined_path::{ConfinedPath, FileContent, hash};
use crate::entry::{Policy, Wanted};
use crate::error::BridgeError;
use crate::ledger::{Connection, Ledger, Part, Pending, Record, remove_backups};
use crate::replace::{Replaced, replace, take_away};
use crate::{block, entry, recovery};

/// The number of attempts if other programs keep rewriting the file.
const TRIES: usize = 10;
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
    pub(super) place: ConfinedPath,
    pub(super) edit: Edit,
    pub(super) policy: Policy,
}

impl Change {
    /// Whether it changes the file.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.before != self.after
    }

    /// Whether it adds the hub's entry to the file.
    #[must_use]
    pub fn enters(&self) -> bool {
        matches!(self.edit, Edit::Enter(_))
    }
}

#[derive(Debug, Clone)]
pub(super) enum Edit {
    Enter(Wanted),
    /// A block. If `asked` for by the user, it is added again even if it was removed by hand.
    Write {
        content: String,
        asked: bool,
    },
    /// A separate file.
    Own {
        content: String,
        asked: bool,
    },
    /// Removes our content, unless another connection needs it.
    Leave,
    Put {
        text: String,
    },
}

impl Bridge {
    /// The content of a file after an edit, and our content in it.
    pub(super) fn computed(
        &self,
        ledger: &Ledger,
        key: &str,
        path: &Path,
        found: Option<&FileContent>,
        (edit, policy): (&Edit, Policy),
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
            Edit::Own { content, asked } => {
                let why = match (found, record) {
                    (None, Some(_)) if !asked => Some("was removed by somebody"),
                    (Some(found), Some(record)) if found.hash != record.hash => Some(NOT_AS_WRITTEN),
                    (Some(found), None) if found.text != *content => Some(NOT_AS_WRITTEN),
                    _ => None,
                };
                match why.filter(|_| !insist) {
                    None => Ok((Some(content.clone()), Some(Part::Own))),
                    Some(why) => Err(BridgeError::conflict(
                        path,
                        why,
                        "move it away; `plexus connect --policy replace` writes it anew",
                    )),
                }
            }
            Edit::Leave if ledger.is_shared(path, key) => Ok((found.map(|found| found.text.clone()), None)),
            Edit::Leave => self.left(ledger, path, found, insist).map(|text| (text, None)),
            Edit::Put { text } => {
                let kept = known.and_then(|part| match part {
                    // A file that we wrote earlier with other content is ours too.
                    Part::Entry { .. } => entry::in_text(text, part),
                    part => (block::is_current(path, text, part) == Some(true)).then(|| part.clone()),
                });
                Ok((Some(text.clone()), kept))
            }
        }
    }

    /// Removes our content from a file.
    fn left(
        &self,
        ledger: &Ledger,
        path: &Path,
        found: Option<&FileContent>,
        insist: bool,
    ) -> Result<Option<String>, BridgeError> {
        let (Some(found), Some(record)) = (found, ledger.record(path)) else {
            return Ok(found.map(|found| found.text.clone()));
        };
        let as_left = found.hash == record.hash;
        // The file contains nothing that was not in it before.
        let all_ours = if record.part == Part::Own { as_left || insist } else { as_left && record.alone };
        if all_ours {
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
            // The backup is missing.
            Part::Own if all_ours => return Ok(None),
            Part::Own => {
                return Err(BridgeError::conflict(
                    path,
                    NOT_AS_WRITTEN,
                    "`--policy replace` removes it anyway",
                ));
            }
        };
        // A file created by us without other content is removed.
        let hollow = ["", "{}"].contains(&text.split_whitespace().collect::<String>().as_str());
        Ok((record.before.is_some() || !hollow).then_some(text))
    }

    /// Applies a change to the current content of the file.
    pub fn apply(&self, change: &Change, connection: Option<&Connection>) -> Result<bool, BridgeError> {
        private_file::create_dir(&self.folder).map_err(BridgeError::io(&self.folder, "make the folder"))?;
        let _lock = self.lock()?;
        let mut ledger = self.recovered()?;
        if let Some(connection) = connection {
            ledger.connections.entry(change.key.clone()).or_insert_with(|| connection.clone());
        }
        let mut tries = (0..TRIES).map(|_| self.tried(&mut ledger, change, connection.is_some()));
        let made = tries.find_map(Result::transpose);
        let made = made.unwrap_or_else(|| Err(BridgeError::Restless(change.path.clone())));
        if let (Err(_), Some(pending)) = (&made, ledger.pending.take()) {
            recovery::settle(&mut ledger, &pending);
            // If this cannot be written, the next command recovers.
            let _ = ledger.write(&self.folder);
        }
        made
    }

    /// Whether the file was changed; none if another program has written it meanwhile.
    fn tried(
        &self,
        ledger: &mut Ledger,
        change: &Change,
        connects: bool,
    ) -> Result<Option<bool>, BridgeError> {
        let Change { path, key, place, edit, policy, .. } = change;
        let found = place.read()?;
        // An agent that writes in place has truncated it; its content is still being written.
        let was_empty = change.before.as_ref().is_none_or(String::is_empty);
        if !was_empty && found.as_ref().is_some_and(|found| found.text.is_empty()) {
            std::thread::sleep(LOOK);
            return Ok(None);
        }
        let (after, part) = self.computed(ledger, key, path, found.as_ref(), (edit, *policy))?;
        if matches!(edit, Edit::Leave) && ledger.is_shared(path, key) {
            ledger.leave(key, path);
            self.steps.about_to("write the ledger");
            ledger.write(&self.folder)?;
            return Ok(Some(false));
        }
        let before = found.as_ref().map(|found| &found.text);
        // The record of a removed file is obsolete.
        let known = ledger.record(path).filter(|_| found.is_some()).cloned();
        let now = self.clock.now();
        let kept = match before {
            Some(text) if before != after.as_ref() || known.is_none() => {
                self.steps.about_to("keep a copy");
                Some(ledger.back_up(&self.folder, path, text, now)?)
            }
            _ => None,
        };
        let is_as_left = |known: &Record| found.as_ref().is_some_and(|found| found.hash == known.hash);
        let record = part.zip(after.as_ref()).map(|(part, text)| Record {
            path: path.clone(),
            part,
            hash: hash(text.as_bytes()),
            before: known.as_ref().map_or(kept, |known| known.before.clone()),
            // Content that was ours before the ledger recorded it is also in the backup.
            alone: known.as_ref().map_or(before != after.as_ref(), |known| known.alone && is_as_left(known))
                && !matches!(edit, Edit::Put { .. }),
            made: known.as_ref().map_or_else(|| ledger.made_for(place), |known| known.made.clone()),
            written_at: now,
        });
        if before == after.as_ref() {
            // Nothing to write; the ledger may still need an update.
            let same =
                |known: &Record, record: &Record| known.part == record.part && known.hash == record.hash;
            if !matches!((&known, &record), (Some(known), Some(record)) if same(known, record)) || connects {
                ledger.settle(key, path, record.as_ref());
                self.steps.about_to("write the ledger");
                ledger.write(&self.folder)?;
            }
            return Ok(Some(false));
        }
        let beside = format!(".{}.plexus-{:08x}", file_name(path), rand::random::<u32>());
        ledger.pending = Some(Pending {
            connection: key.clone(),
            root: place.root().to_owned(),
            below: place.below().to_owned(),
            beside: beside.clone(),
            from: found.as_ref().map(|found| found.hash.clone()),
            to: after.as_ref().map(|text| hash(text.as_bytes())),
            path: path.clone(),
            record: record.clone(),
        });
        self.steps.about_to("write what is pending");
        ledger.write(&self.folder)?;
        let old = ledger.record(path).map_or_else(Vec::new, |known| known.made.clone());
        if self.made(place, found.as_ref(), after.as_deref(), &beside)? == Replaced::Changed {
            // Nothing was changed, and no temporary file exists.
            ledger.pending = None;
            return Ok(None);
        }
        ledger.pending = None;
        ledger.settle(key, path, record.as_ref());
        if after.is_none() {
            self.steps.about_to("remove the folders");
            recovery::remove_folders(&old);
        }
        let old = ledger.forget_old_backups(path);
        self.steps.about_to("write the ledger");
        ledger.write(&self.folder)?;
        remove_backups(&self.folder, &old);
        self.steps.about_to("end");
        Ok(Some(true))
    }

    fn made(
        &self,
        place: &ConfinedPath,
        found: Option<&FileContent>,
        after: Option<&str>,
        beside: &str,
    ) -> Result<Replaced, BridgeError> {
        let steps = self.steps.as_ref();
        if after.is_some() {
            steps.about_to("make the folders");
        }
        let Some(folder) = place.folder(after.is_some())? else { return Ok(Replaced::Changed) };
        match (found, after) {
            (_, Some(text)) => replace(place, &folder, found, text, beside, steps),
            (Some(found), None) => take_away(place, &folder, found, beside, steps),
            (None, None) => Ok(Replaced::Done),
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().trim_start_matches('.').to_owned()).unwrap_or_default()
}
