//! Servers out of the files of other programs: first a plan, then files.
//!
//! [`source`] reads the text, [`form`] finds the servers in it, [`dialect`] gives all of them the same keys, [`entry`] makes
//! a document of each, [`variables`] writes its references as they are written here. [`this_hub`] knows the hub's own entry,
//! which is not a server to import. A server that cannot be brought over as it was is left out with the reason; the others are not held
//! up by it.

mod dialect;
mod entry;
mod form;
mod source;
mod this_hub;
mod variables;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use plexus_proto::tool_name;
use serde_json::Value;

use super::check::{self, MissingReference};
use super::literals;
use super::problem::{Cause, FolderError, Problem};
use super::{Folder, Inward, outline};
use entry::Converted;
pub use this_hub::ThisHub;

/// Longest file that is imported. Programs that keep their servers among other things have long ones.
pub(super) const MAX_IMPORT_BYTES: u64 = 8 * 1024 * 1024;
/// Most servers of one file; those behind them are left out and named.
const MAX_SERVERS: usize = 256;

/// What an import would do.
#[derive(Debug, Clone)]
pub struct ImportPlan {
    /// The file, as it was named.
    pub source: String,
    /// The form in which it was written.
    pub form: &'static str,
    /// By name.
    pub servers: Vec<Planned>,
    pub skipped: Vec<Skipped>,
    /// About the file, and about what of its servers is not brought over.
    pub warnings: Vec<String>,
    /// What is left out because it is not a server to import, such as the entry of the hub itself.
    pub notes: Vec<String>,
}

/// A server that would be added.
#[derive(Clone)]
pub struct Planned {
    pub name: String,
    pub file: PathBuf,
    /// What is strange about it but stops nothing.
    pub warnings: Vec<String>,
    document: Value,
}

impl Planned {
    /// As it will be written, with literal credentials masked.
    #[must_use]
    pub fn shown(&self) -> Value {
        match &self.document {
            Value::Object(fields) => Value::Object(literals::masked(fields)),
            other => other.clone(),
        }
    }

    /// The program it would start, as written; none for a server on the network. Who imports over the network is held
    /// to the commands that may be added that way.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        self.document.get("command").and_then(Value::as_str)
    }

    /// Where it leads into the hub's own network.
    #[must_use]
    pub fn inward(&self) -> Inward {
        outline::inward(&self.document)
    }

    /// Whether it asks for something of the hub's machine; see [`super::has_references`].
    #[must_use]
    pub fn has_references(&self) -> bool {
        literals::has_references(&self.document)
    }
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned").field("name", &self.name).field("file", &self.file).finish_non_exhaustive()
    }
}

/// A server that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub name: String,
    pub why: String,
    /// The command that the machine would have to allow for it, where nothing else is missing.
    pub command: Option<String>,
}

/// Why a server is not taken.
#[derive(Debug, Clone, Default)]
pub struct Refused {
    pub why: String,
    /// See [`Skipped::command`].
    pub command: Option<String>,
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self { why, command: None }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is left out: {}", self.name, self.why)
    }
}

/// What came of a plan.
#[derive(Debug, Default)]
pub struct Applied {
    pub written: Vec<PathBuf>,
    pub failed: Vec<Skipped>,
    /// Some failed for what may pass, such as a full disk.
    pub incomplete: bool,
}

impl Folder {
    /// What importing a file of another program would do. Nothing is written.
    pub fn import(&self, file_name: &str, text: &str) -> Result<ImportPlan, FolderError> {
        self.import_admitted(file_name, text, &ThisHub::default(), |_| Ok(()))
    }

    /// The same of those servers only that `admit` lets through; of the others it says why not. It is asked before a
    /// reference of the server is looked up, which alone would tell what is there. An entry of `hub` itself is left out
    /// with a note.
    pub fn import_admitted(
        &self,
        file_name: &str,
        text: &str,
        hub: &ThisHub,
        admit: impl Fn(&Planned) -> Result<(), Refused>,
    ) -> Result<ImportPlan, FolderError> {
        let refuse = |why: String| FolderError::Import { file: file_name.to_owned(), why };
        if text.len() as u64 > MAX_IMPORT_BYTES {
            return Err(refuse(format!("is longer than {} MiB", MAX_IMPORT_BYTES / 1024 / 1024)));
        }
        let found = source::value(text).and_then(form::find).map_err(refuse)?;
        let mut plan = ImportPlan {
            source: file_name.to_owned(),
            form: found.form,
            servers: Vec::new(),
            skipped: Vec::new(),
            warnings: found.warnings,
            notes: found.notes,
        };
        // A folder that cannot be read is no reason to leave out one server after the other.
        self.files()?;
        let mut slugs = BTreeSet::new();
        for (place, (name, given)) in found.servers.into_iter().enumerate() {
            let converted = entry::convert(&given, found.dialect, &found.inputs);
            if converted.as_ref().is_ok_and(|converted| hub.is(&converted.document)) {
                plan.notes.push(format!("{name:?} is this hub itself, and is not imported"));
                continue;
            }
            let planned = match place < MAX_SERVERS {
                true => self.plan(&name, converted, &admit, &mut slugs),
                false => Err(Refused::from(format!("only {MAX_SERVERS} servers of a file are imported"))),
            };
            match planned {
                Ok(server) => plan.servers.push(server),
                Err(Refused { why, command }) => plan.skipped.push(Skipped { name, why, command }),
            }
        }
        Ok(plan)
    }

    /// Writes the files of a plan. One that cannot be written does not keep the others from it.
    pub fn apply(&self, plan: &ImportPlan) -> Applied {
        let _changing = self.changing();
        let mut applied = Applied::default();
        for server in &plan.servers {
            match self.write_new(&server.name, &server.document) {
                Ok(file) => applied.written.push(file),
                Err(error) => {
                    applied.incomplete |= matches!(error, FolderError::Io(_));
                    let (name, why) = (server.name.clone(), error.to_string());
                    applied.failed.push(Skipped { name, why, command: None });
                }
            }
        }
        applied
    }

    fn plan(
        &self,
        given_name: &str,
        converted: Result<Converted, String>,
        admit: &dyn Fn(&Planned) -> Result<(), Refused>,
        slugs: &mut BTreeSet<String>,
    ) -> Result<Planned, Refused> {
        let name = file_name(given_name);
        let slug = check::usable_name(&name).map_err(|why| format!("its name {why}"))?;
        let converted = converted?;
        if !slugs.insert(slug.to_ascii_lowercase()) {
            let why = "another server of the file has the same name in the names of tools";
            return Err(why.to_owned().into());
        }
        match self.taken(&name) {
            Ok(None) => {}
            Ok(Some(file)) => return Err(format!("{} is there already", file.display()).into()),
            Err(error) => return Err(error.to_string().into()),
        }
        let file = self.new_file(&name);
        let warnings = converted.left_out.iter().map(|told| format!("{}: {told}", file.display())).collect();
        let fields = converted.document.clone();
        let mut planned = Planned { name, file, warnings, document: Value::Object(converted.document) };
        admit(&planned)?;
        let checked = check::check(
            &planned.name,
            planned.file.clone(),
            fields,
            self.environment(),
            MissingReference::ExcusedWhileOff,
        );
        match checked {
            Ok(server) => planned.warnings.extend(server.warnings),
            Err(problems) => {
                // What is not there now may be there when the hub is next started.
                let (missing, wrong): (Vec<_>, Vec<_>) =
                    problems.into_iter().partition(|problem| problem.cause == Cause::Missing);
                if !wrong.is_empty() {
                    return Err(wrong.iter().map(in_source).collect::<Vec<_>>().join("; and ").into());
                }
                planned.warnings.extend(missing.iter().map(Problem::to_string));
            }
        }
        Ok(planned)
    }
}

/// A problem with what was given, for which there is no file yet.
fn in_source(problem: &Problem) -> String {
    let Problem { field, what, fix, .. } = problem;
    if field.is_empty() { format!("it {what} ({fix})") } else { format!("`{field}` {what} ({fix})") }
}

/// A name as that of a file: what cannot be in one becomes `-`.
fn file_name(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
    let plain: String = name.chars().map(|c| if keep(c) { c } else { '-' }).collect();
    let plain = plain.trim_matches(['-', '.', ' ']);
    // Longer ones differ in their slug only, which has a hash of the whole name.
    match plain.len() {
        0..=64 => plain.to_owned(),
        _ => tool_name::slug(name).unwrap_or_default(),
    }
}
