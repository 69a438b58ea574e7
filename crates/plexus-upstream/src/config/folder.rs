//! The folder with one file per server: reading it, and the changes that the hub makes to it.
//!
//! Only regular files ending in `.json` or `.toml` are read; hidden files and editor backups are ignored.
//! Each change replaces a whole file, one at a time, and nothing is deleted: removed files move into
//! `.removed`. Permissions that let others write the files are handled in [`exposure`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fs_err as fs;
use plexus_kit::syntax::{Format, read_bounded};
use plexus_kit::{Clock, Environment, private_file};
use plexus_proto::tool_name;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::check::{self, MissingReference};
use super::problem::{Findings, FolderError, Problem};
use super::read_cache::{ModifiedAt, ReadCache, Version};
use super::{ServerConfig, exposure, literals};

/// Longest file of a server.
pub(super) const MAX_BYTES: u64 = 256 * 1024;
/// Most files that are read; further ones, in name order, are refused.
pub(super) const MAX_FILES: usize = 512;
/// Folder for removed files.
const REMOVED: &str = ".removed";

/// The result of reading one file.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Name of the file, without the ending.
    pub name: String,
    /// None if the name is invalid.
    pub slug: Option<String>,
    pub file: PathBuf,
    pub server: Result<ServerConfig, Vec<Problem>>,
}

/// Which files have their references resolved again. A file that changed since it was last read is always
/// read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    All,
    Changed,
    /// The file of one server.
    One(String),
}

#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    environment: Environment,
    clock: Clock,
    missing: MissingReference,
    /// Held while a file is changed.
    change_lock: Mutex<()>,
    /// The results of the last read.
    cache: ReadCache,
}

impl Folder {
    #[must_use]
    pub fn new(dir: PathBuf, environment: Environment) -> Self {
        let missing = MissingReference::ExcusedWhileOff;
        let (change_lock, cache) = (Mutex::new(()), ReadCache::default());
        Self { dir, environment, clock: Clock::system(), missing, change_lock, cache }
    }

    /// Sets the clock that names backups.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// For processes that read the files without being the hub: an unresolvable reference is only a warning
    /// if the rest of the file describes a valid server.
    #[must_use]
    pub fn excusing_missing(self) -> Self {
        Self { missing: MissingReference::Excused, ..self }
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every server that has a file, by name. A folder that does not exist counts as empty, and so does one
    /// that cannot be read, which is logged; use [`Folder::scan`] to tell the two apart.
    #[must_use]
    pub fn read(&self) -> Vec<Entry> {
        self.scan().unwrap_or_else(|error| {
            tracing::error!(dir = %self.dir.display(), %error, "cannot read the MCP server folder");
            Vec::new()
        })
    }

    /// Like [`Folder::read`], but returns an error if the folder cannot be read.
    pub fn scan(&self) -> Result<Vec<Entry>, FolderError> {
        self.scan_for(&Reading::All)
    }

    /// Like [`Folder::scan`], with cached results for files that need not be read again.
    pub fn scan_for(&self, reading: &Reading) -> Result<Vec<Entry>, FolderError> {
        let files = self.files()?;
        self.cache.retain(&files.iter().map(|(file, _)| file.as_path()).collect::<BTreeSet<_>>());
        let mut entries: Vec<Entry> = Vec::new();
        for (index, (file, format)) in files.into_iter().enumerate() {
            entries.push(self.entry(file, format, reading, index >= MAX_FILES));
        }
        refuse_clashes(&mut entries);
        exposure::apply(&self.dir, &mut entries);
        Ok(entries)
    }

    /// The server that a document would describe, or all of its problems. Its references must be resolvable.
    pub fn check(&self, name: &str, document: &Value) -> Result<ServerConfig, Vec<Problem>> {
        let file = self.new_file(name);
        match document {
            Value::Object(fields) => {
                check::check(name, file, fields.clone(), &self.environment, MissingReference::Problem)
            }
            _ => {
                let mut findings = Findings::new(file);
                findings.unusable("is not an object", "write an object with `command` or `url`");
                Err(findings.problems)
            }
        }
    }

    /// A server's file as written: references are not resolved, and literal credentials are masked.
    pub fn document(&self, name: &str) -> Result<Value, FolderError> {
        let (file, format) = self.find(name)?;
        let fields = read_text(&file).and_then(|text| parse(&file, format, &text));
        let fields = fields.map_err(FolderError::Problems)?;
        Ok(Value::Object(literals::masked(&fields)))
    }

    /// Writes the file of a new server, as JSON that only its owner can read.
    pub fn add(&self, name: &str, document: &Value) -> Result<PathBuf, FolderError> {
        check::usable_name(name).map_err(|why| FolderError::Name { name: name.to_owned(), why })?;
        self.check(name, document).map_err(FolderError::Problems)?;
        let _changing = self.change_lock();
        self.write_new(name, document)
    }

    /// Moves a server's file to the removed files and returns its new path.
    pub fn remove(&self, name: &str) -> Result<PathBuf, FolderError> {
        let _changing = self.change_lock();
        let (file, format) = self.find(name)?;
        let removed = self.dir.join(REMOVED);
        private_file::create_dir(&removed)?;
        let target = free_path(&removed, &format!("{name}.{}", self.stamp()), format.ending());
        fs::rename(&file, &target)?;
        Ok(target)
    }

    /// Enables or disables a server; the rest of its file stays byte for byte.
    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), FolderError> {
        let _changing = self.change_lock();
        let (file, format) = self.find(name)?;
        let text = read_text(&file).map_err(FolderError::Problems)?;
        let now = format.parse(&text).map(|fields| fields.get("enabled").is_none_or(|on| on == true));
        if now == Ok(enabled) {
            return Ok(());
        }
        let changed = format.with_enabled(&text, enabled).map_err(|problem| {
            let mut findings = Findings::new(file.clone());
            findings.unusable(problem, "correct it first");
            FolderError::Problems(findings.problems)
        })?;
        Ok(private_file::write(&file, changed.as_bytes())?)
    }

    /// Writes a file for an unused name. The caller holds the lock and has checked the document.
    pub(super) fn write_new(&self, name: &str, document: &Value) -> Result<PathBuf, FolderError> {
        if let Some(file) = self.file_with_same_slug(name)? {
            return Err(FolderError::Exists { name: name.to_owned(), file });
        }
        if !self.dir.is_dir() {
            private_file::create_dir(&self.dir)?;
        }
        let file = self.new_file(name);
        let mut text = serde_json::to_string_pretty(document).map_err(io::Error::from)?;
        text.push('\n');
        // Another process may have used the name since the check: a hard link never replaces a file, as a
        // rename would.
        let draft = self.dir.join(format!(".{name}-{}.new", Uuid::now_v7()));
        private_file::write(&draft, text.as_bytes())?;
        let linked = fs::hard_link(&draft, &file);
        fs::remove_file(&draft)?;
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(FolderError::Exists { name: name.to_owned(), file });
            }
            Err(error) => return Err(error.into()),
        }
        fs::File::open(&self.dir)?.sync_all()?;
        Ok(file)
    }

    /// The file whose server has the same slug as this name.
    pub(super) fn file_with_same_slug(&self, name: &str) -> Result<Option<PathBuf>, FolderError> {
        let Some(slug) = slug_key(name) else { return Ok(None) };
        let files = self.files()?.into_iter().map(|(file, _)| file);
        Ok(files.into_iter().find(|file| slug_key(&stem(file)).as_ref() == Some(&slug)))
    }

    /// Whether this file describes the same server as a document. `enabled` is not compared.
    pub(super) fn describes(&self, file: &Path, document: &Map<String, Value>) -> bool {
        let format = file.extension().and_then(|ending| Format::of_ending(ending.to_str()?));
        let written = format.and_then(|format| format.parse(&read_text(file).ok()?).ok());
        written.is_some_and(|mut written| {
            let mut document = document.clone();
            written.remove("enabled");
            document.remove("enabled");
            written == document
        })
    }

    pub(super) fn change_lock(&self) -> MutexGuard<'_, ()> {
        self.change_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(super) fn new_file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{}", Format::Json.ending()))
    }

    /// The current time as part of a file name.
    pub(super) fn stamp(&self) -> String {
        let now = self.clock.now().to_string();
        now.chars().filter(|c| c.is_ascii_alphanumeric()).collect()
    }

    fn entry(&self, file: PathBuf, format: Format, reading: &Reading, too_many: bool) -> Entry {
        let name = stem(&file);
        let server = if too_many {
            let mut findings = Findings::new(file.clone());
            let fix = "move files that are not needed out of the folder";
            findings.unusable(format!("exceeds the limit of {MAX_FILES} files"), fix);
            Err(findings.problems)
        } else {
            self.server(&name, &file, format, reading)
        };
        Entry { slug: check::usable_name(&name).ok(), name, file, server }
    }

    fn server(
        &self,
        name: &str,
        file: &Path,
        format: Format,
        reading: &Reading,
    ) -> Result<ServerConfig, Vec<Problem>> {
        let written = ModifiedAt::of(file);
        let text = read_text(file)?;
        let version = Version::new(written, &text);
        let is_due = match reading {
            Reading::All => true,
            Reading::Changed => false,
            Reading::One(of) => of == name,
        };
        if !is_due && let Some(server) = self.cache.get(file, version) {
            return server;
        }
        let server = parse(file, format, &text)
            .and_then(|fields| check::check(name, file.to_owned(), fields, &self.environment, self.missing));
        self.cache.put(file, version, &server);
        server
    }

    /// The server files, by name.
    pub(super) fn files(&self) -> Result<Vec<(PathBuf, Format)>, FolderError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let Some(format) = path.extension().and_then(|ending| Format::of_ending(ending.to_str()?)) else {
                continue;
            };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(['.', '#']) && !entry.file_type()?.is_dir() {
                files.push((path, format));
            }
        }
        files.sort_by(|(a, _), (b, _)| (stem(a), a).cmp(&(stem(b), b)));
        Ok(files)
    }

    fn find(&self, name: &str) -> Result<(PathBuf, Format), FolderError> {
        let file_of_name = self.files()?.into_iter().find(|(file, _)| stem(file) == name);
        file_of_name.ok_or_else(|| FolderError::NotFound { name: name.to_owned(), dir: self.dir.clone() })
    }
}

/// Refuses servers whose tools would have the same names: all of them, since it is unclear which one is
/// meant.
fn refuse_clashes(entries: &mut [Entry]) {
    let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        if let Some(slug) = slug_key(&entry.name) {
            owners.entry(slug).or_default().push(index);
        }
    }
    for clash in owners.values().filter(|owners| owners.len() > 1) {
        let files: Vec<PathBuf> = clash.iter().map(|index| entries[*index].file.clone()).collect();
        for index in clash {
            let entry = &mut entries[*index];
            let mut findings = Findings::new(entry.file.clone());
            for other in files.iter().filter(|other| **other != entry.file) {
                findings.unusable(
                    format!("would give its tools the same names as those of {}", other.display()),
                    "rename one of the two files, or remove it",
                );
            }
            if let Err(problems) = &mut entry.server {
                findings.problems.append(problems);
            }
            entry.server = Err(findings.problems);
        }
    }
}

/// The key that must be unique among servers. Names that differ only in capitalization are too similar for
/// models.
fn slug_key(name: &str) -> Option<String> {
    tool_name::slug(name).map(|slug| slug.to_ascii_lowercase())
}

fn stem(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A path in the folder at which nothing exists.
pub(super) fn free_path(folder: &Path, name: &str, ending: &str) -> PathBuf {
    let first = folder.join(format!("{name}.{ending}"));
    let numbered = (2..).map(|count| folder.join(format!("{name}-{count}.{ending}")));
    std::iter::once(first).chain(numbered).find(|path| path.symlink_metadata().is_err()).unwrap_or_default()
}

fn parse(file: &Path, format: Format, text: &str) -> Result<Map<String, Value>, Vec<Problem>> {
    format.parse(text).map_err(|problem| {
        let mut findings = Findings::new(file.to_owned());
        let fix = match problem.starts_with("is not an object") || problem == "is empty" {
            true => r#"write an object, such as {"command": "npx"}"#,
            false => "correct it there",
        };
        findings.unusable(problem, fix);
        findings.problems
    })
}

fn read_text(file: &Path) -> Result<String, Vec<Problem>> {
    read_bounded(file, MAX_BYTES).map_err(|(problem, fix)| {
        let mut findings = Findings::new(file.to_owned());
        findings.unusable(problem, fix);
        findings.problems
    })
}
