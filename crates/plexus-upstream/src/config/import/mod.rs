//! Imports servers from files of other programs: first a plan, then files.
//!
//! [`source`] reads the text, [`form`] finds the servers in it, [`dialect`] translates the keys of each program, [`entry`] converts
//! each server into a document, and [`variables`] rewrites its references. [`this_hub`] recognizes the hub's own entry,
//! which is not imported. A server that cannot be converted faithfully is skipped with a reason; the others are not
//! affected.

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
use entry::ConvertedEntry;
pub use this_hub::ThisHub;

/// Size limit of an imported file. Programs that store their servers among other settings have long files.
pub(super) const MAX_IMPORT_BYTES: u64 = 8 * 1024 * 1024;
/// Most servers of one file; further ones are skipped and reported.
const MAX_SERVERS: usize = 256;

/// What an import would do.
#[derive(Debug, Clone)]
pub struct ImportPlan {
    /// The file, as the caller named it.
    pub source: String,
    /// The recognized file format.
    pub form: &'static str,
    /// By name.
    pub servers: Vec<PlannedServer>,
    pub skipped: Vec<SkippedServer>,
    /// Warnings about the file, and about parts of its servers that are not imported.
    pub warnings: Vec<String>,
    /// What is left out because it is not a server to import, such as the entry of the hub itself.
    pub notes: Vec<String>,
}

/// A server that would be added.
#[derive(Clone)]
pub struct PlannedServer {
    pub name: String,
    pub file: PathBuf,
    /// Oddities that do not prevent the import.
    pub warnings: Vec<String>,
    document: Value,
}

impl PlannedServer {
    /// The document as it will be written, with literal credentials masked.
    #[must_use]
    pub fn shown(&self) -> Value {
        match &self.document {
            Value::Object(fields) => Value::Object(literals::masked(fields)),
            other => other.clone(),
        }
    }

    /// The program it would start, as written; none for a server on the network. Imports over the network may
    /// only use the commands that may be added that way.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        self.document.get("command").and_then(Value::as_str)
    }

    /// Whether its URL leads into the hub's own network.
    #[must_use]
    pub fn inward(&self) -> Inward {
        outline::inward(&self.document)
    }

    /// Whether it reads anything from the hub's machine; see [`super::has_references`].
    #[must_use]
    pub fn has_references(&self) -> bool {
        literals::has_references(&self.document)
    }
}

impl fmt::Debug for PlannedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedServer")
            .field("name", &self.name)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// A server that is not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedServer {
    pub name: String,
    pub why: String,
    /// The command that the machine would have to allow for it, where nothing else is missing.
    pub command: Option<String>,
    /// There is already a server of this name with the same document.
    pub exists: bool,
}

/// Why a server is not taken.
#[derive(Debug, Clone, Default)]
pub struct ImportRefusal {
    pub why: String,
    /// See [`Skipped::command`].
    pub command: Option<String>,
    /// See [`Skipped::exists`].
    pub exists: bool,
}

impl From<String> for ImportRefusal {
    fn from(why: String) -> Self {
        Self { why, command: None, exists: false }
    }
}

impl fmt::Display for SkippedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is left out: {}", self.name, self.why)
    }
}

/// The result of applying a plan.
#[derive(Debug, Default)]
pub struct AppliedImport {
    pub written: Vec<PathBuf>,
    pub failed: Vec<SkippedServer>,
    /// Some writes failed for a reason that may be temporary, such as a full disk.
    pub incomplete: bool,
}

impl Folder {
    /// The plan for importing a file of another program. Nothing is written.
    pub fn import(&self, file_name: &str, text: &str) -> Result<ImportPlan, FolderError> {
        self.import_admitted(file_name, text, &ThisHub::default(), |_| Ok(()))
    }

    /// Like [`Folder::import`], but only for servers that `admit` accepts; the others are skipped with the
    /// reason it returns. `admit` runs before any reference is looked up, because the lookup alone would
    /// reveal whether a file exists. An entry of `hub` itself is skipped with a note.
    pub fn import_admitted(
        &self,
        file_name: &str,
        text: &str,
        hub: &ThisHub,
        admit: impl Fn(&PlannedServer) -> Result<(), ImportRefusal>,
    ) -> Result<ImportPlan, FolderError> {
        let refuse = |why: String| FolderError::Import { file: file_name.to_owned(), why };
        if text.len() as u64 > MAX_IMPORT_BYTES {
            return Err(refuse(format!("is longer than {} MiB", MAX_IMPORT_BYTES / 1024 / 1024)));
        }
        let parsed = source::value(text).and_then(form::find_servers).map_err(refuse)?;
        let mut plan = ImportPlan {
            source: file_name.to_owned(),
            form: parsed.form,
            servers: Vec::new(),
            skipped: Vec::new(),
            warnings: parsed.warnings,
            notes: parsed.notes,
        };
        // If the folder cannot be read, return that error once instead of skipping every server.
        self.files()?;
        let mut slugs = BTreeSet::new();
        for (index, (name, entry)) in parsed.servers.into_iter().enumerate() {
            let converted = entry::convert(&entry, parsed.dialect, &parsed.inputs);
            if converted.as_ref().is_ok_and(|converted| hub.matches_entry(&converted.document)) {
                plan.notes.push(format!("{name:?} is this hub itself, and is not imported"));
                continue;
            }
            let planned = match index < MAX_SERVERS {
                true => self.plan(&name, converted, &admit, &mut slugs),
                false => {
                    Err(ImportRefusal::from(format!("only {MAX_SERVERS} servers of a file are imported")))
                }
            };
            match planned {
                Ok(server) => plan.servers.push(server),
                Err(ImportRefusal { why, command, exists }) => {
                    plan.skipped.push(SkippedServer { name, why, command, exists });
                }
            }
        }
        Ok(plan)
    }

    /// Writes the files of a plan. A failed write does not prevent the others.
    pub fn apply(&self, plan: &ImportPlan) -> AppliedImport {
        let _changing = self.change_lock();
        let mut applied = AppliedImport::default();
        for server in &plan.servers {
            match self.write_new(&server.name, &server.document) {
                Ok(file) => applied.written.push(file),
                Err(error) => {
                    applied.incomplete |= matches!(error, FolderError::Io(_));
                    let (name, why) = (server.name.clone(), error.to_string());
                    applied.failed.push(SkippedServer { name, why, command: None, exists: false });
                }
            }
        }
        applied
    }

    fn plan(
        &self,
        given_name: &str,
        converted: Result<ConvertedEntry, String>,
        admit: &dyn Fn(&PlannedServer) -> Result<(), ImportRefusal>,
        slugs: &mut BTreeSet<String>,
    ) -> Result<PlannedServer, ImportRefusal> {
        let name = file_name(given_name);
        let slug = check::usable_name(&name).map_err(|why| format!("its name {why}"))?;
        let converted = converted?;
        if !slugs.insert(slug.to_ascii_lowercase()) {
            let why = "another server in the file would give its tools the same names";
            return Err(why.to_owned().into());
        }
        match self.file_with_same_slug(&name) {
            Ok(None) => {}
            Ok(Some(file)) => {
                let exists = self.describes(&file, &converted.document);
                let why = format!("{} already exists", file.display());
                return Err(ImportRefusal { why, command: None, exists });
            }
            Err(error) => return Err(error.to_string().into()),
        }
        let file = self.new_file(&name);
        let warnings =
            converted.left_out.iter().map(|warning| format!("{}: {warning}", file.display())).collect();
        let fields = converted.document.clone();
        let mut planned = PlannedServer { name, file, warnings, document: Value::Object(converted.document) };
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
                // A missing value may exist when the hub is started next.
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

/// Words a problem as one of the imported entry, which has no file yet.
fn in_source(problem: &Problem) -> String {
    let Problem { field, what, fix, .. } = problem;
    if field.is_empty() { format!("it {what} ({fix})") } else { format!("`{field}` {what} ({fix})") }
}

/// Makes a name usable as a file name: other characters become `-`.
fn file_name(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
    let plain: String = name.chars().map(|c| if keep(c) { c } else { '-' }).collect();
    let plain = plain.trim_matches(['-', '.', ' ']);
    // Longer names are replaced by their slug, which contains a hash of the whole name.
    match plain.len() {
        0..=64 => plain.to_owned(),
        _ => tool_name::slug(name).unwrap_or_default(),
    }
}
