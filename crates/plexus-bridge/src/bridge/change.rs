//! A change to one file: what it makes of the file, and how it is made.
//!
//! The ledger has a change before the file has it. After a crash, what the file holds says whether it was made.

use std::path::{Path, PathBuf};

use plexus_kit::private_file;

use super::Bridge;
use crate::entry::{Policy, Wanted};
use crate::error::BridgeError;
use crate::ledger::{Connection, Ledger, Part, Pending, Record, remove_backups};
use crate::place::{Found, Place, hash};
use crate::replace::{Replaced, replace, take_away};
use crate::{block, entry, recovery};

/// How often a file may be rewritten under our hands.
const TRIES: usize = 10;

/// One file as it is and as it would be.
#[derive(Debug, Clone)]
pub struct Change {
    pub path: PathBuf,
    /// None: it is not there.
    pub before: Option<String>,
    /// None: it will not be there.
    pub after: Option<String>,
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) edit: Edit,
    pub(super) policy: Policy,
}

impl Change {
    /// Whether the file changes by it.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.before != self.after
    }
}

#[derive(Debug, Clone)]
pub(super) enum Edit {
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

impl Bridge {
    /// What a file becomes by an edit, and what is ours in it then.
    pub(super) fn computed(
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
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().trim_start_matches('.').to_owned()).unwrap_or_default()
}
