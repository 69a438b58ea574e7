//! The folder with one file per server: reading it, and the changes that the hub makes to it.
//!
//! Read is what is a regular file with the ending `.json` or `.toml`; what is hidden, a backup of an editor or of another
//! ending is left alone. Changes are made to a file as a whole, one at a time, and nothing is ever deleted: what is
//! removed is moved into `.removed`. What others could have written is another matter: see [`exposure`].

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
use super::read_cache::{ReadCache, Version, Written};
use super::{ServerConfig, exposure, literals};

/// Longest file of a server.
pub(super) const MAX_BYTES: u64 = 256 * 1024;
/// Most files; those behind them by name are refused.
pub(super) const MAX_FILES: usize = 512;
/// Where removed files are kept.
const REMOVED: &str = ".removed";

/// What one file came to.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Name of the file, without the ending.
    pub name: String,
    /// None where the name cannot be used.
    pub slug: Option<String>,
    pub file: PathBuf,
    pub server: Result<ServerConfig, Vec<Problem>>,
}

/// Of which files it is read again what their references name; of any, when it has changed since it was last read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    All,
    Changed,
    /// That of one server.
    One(String),
}

#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    environment: Environment,
    clock: Clock,
    missing: MissingReference,
    /// Held while a file is changed.
    changing: Mutex<()>,
    /// What was read last.
    kept: ReadCache,
}

impl Folder {
    #[must_use]
    pub fn new(dir: PathBuf, environment: Environment) -> Self {
        let missing = MissingReference::ExcusedWhileOff;
        let (changing, kept) = (Mutex::new(()), ReadCache::default());
        Self { dir, environment, clock: Clock::system(), missing, changing, kept }
    }

    /// Backups are named by this clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// For whoever reads the files without being the hub: that a reference names what is not there is only warned about
    /// wherever the rest of the file makes a server without it.
    #[must_use]
    pub fn excusing_missing(self) -> Self {
        Self { missing: MissingReference::Excused, ..self }
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every server there is a file for, by name. A folder that is not there is an empty one; so is one that cannot be
    /// read, which is logged: whoever must tell the two apart calls [`Folder::scan`].
    #[must_use]
    pub fn read(&self) -> Vec<Entry> {
        self.scan().unwrap_or_else(|error| {
            tracing::error!(dir = %self.dir.display(), %error, "the folder of MCP servers cannot be read");
            Vec::new()
        })
    }

    /// The same, or why the folder cannot be read.
    pub fn scan(&self) -> Result<Vec<Entry>, FolderError> {
        self.scan_for(&Reading::All)
    }

    /// The same, with what was read before of files that need not be read again.
    pub fn scan_for(&self, reading: &Reading) -> Result<Vec<Entry>, FolderError> {
        let files = self.files()?;
        self.kept.retain(&files.iter().map(|(file, _)| file.as_path()).collect::<BTreeSet<_>>());
        let mut entries: Vec<Entry> = Vec::new();
        for (place, (file, format)) in files.into_iter().enumerate() {
            entries.push(self.entry(file, format, reading, place >= MAX_FILES));
        }
        refuse_clashes(&mut entries);
        exposure::judge(&self.dir, &mut entries);
        Ok(entries)
    }

    /// The server that a document would be, or all that is wrong with it. What its references name has to be there.
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

    /// A server's file as written: references are not filled in, and literal credentials are masked.
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
        let _changing = self.changing();
        self.write_new(name, document)
    }

    /// Moves a server's file out of the way; gives back where to.
    pub fn remove(&self, name: &str) -> Result<PathBuf, FolderError> {
        let _changing = self.changing();
        let (file, format) = self.find(name)?;
        let kept = self.dir.join(REMOVED);
        private_file::create_dir(&kept)?;
        let target = free_path(&kept, &format!("{name}.{}", self.stamp()), format.ending());
        fs::rename(&file, &target)?;
        Ok(target)
    }

    /// Switches a server on or off; the rest of its file stays as it was written.
    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), FolderError> {
        let _changing = self.changing();
        let (file, format) = self.find(name)?;
        let text = read_text(&file).map_err(FolderError::Problems)?;
        let now = format.parse(&text).map(|fields| fields.get("enabled").is_none_or(|on| on == true));
        if now == Ok(enabled) {
            return Ok(());
        }
        let changed = format.with_enabled(&text, enabled).map_err(|what| {
            let mut findings = Findings::new(file.clone());
            findings.unusable(what, "correct it first");
            FolderError::Problems(findings.problems)
        })?;
        Ok(private_file::write(&file, changed.as_bytes())?)
    }

    /// Writes a file for a name that is not taken. The caller holds the lock and has checked the document.
    pub(super) fn write_new(&self, name: &str, document: &Value) -> Result<PathBuf, FolderError> {
        if let Some(file) = self.taken(name)? {
            return Err(FolderError::Exists { name: name.to_owned(), file });
        }
        if !self.dir.is_dir() {
            private_file::create_dir(&self.dir)?;
        }
        let file = self.new_file(name);
        let mut text = serde_json::to_string_pretty(document).map_err(io::Error::from)?;
        text.push('\n');
        // Another process may have taken the name since it was looked at: a link never replaces, as a rename would.
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

    /// The file whose server has the slug of this name.
    pub(super) fn taken(&self, name: &str) -> Result<Option<PathBuf>, FolderError> {
        let Some(slug) = slug_key(name) else { return Ok(None) };
        let files = self.files()?.into_iter().map(|(file, _)| file);
        Ok(files.into_iter().find(|file| slug_key(&stem(file)).as_ref() == Some(&slug)))
    }

    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(super) fn new_file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{}", Format::Json.ending()))
    }

    /// Now, as part of the name of a file.
    pub(super) fn stamp(&self) -> String {
        let now = self.clock.now().to_string();
        now.chars().filter(|c| c.is_ascii_alphanumeric()).collect()
    }

    fn entry(&self, file: PathBuf, format: Format, reading: &Reading, too_many: bool) -> Entry {
        let name = stem(&file);
        let server = if too_many {
            let mut findings = Findings::new(file.clone());
            let fix = "move what is not needed out of the folder";
            findings.unusable(format!("is one more than the {MAX_FILES} files that are read"), fix);
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
        let written = Written::of(file);
        let text = read_text(file)?;
        let version = Version::new(written, &text);
        let is_due = match reading {
            Reading::All => true,
            Reading::Changed => false,
            Reading::One(of) => of == name,
        };
        if !is_due && let Some(server) = self.kept.get(file, version) {
            return server;
        }
        let server = parse(file, format, &text)
            .and_then(|fields| check::check(name, file.to_owned(), fields, &self.environment, self.missing));
        self.kept.put(file, version, &server);
        server
    }

    /// The files of servers, by name.
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
        let found = self.files()?.into_iter().find(|(file, _)| stem(file) == name);
        found.ok_or_else(|| FolderError::NotFound { name: name.to_owned(), dir: self.dir.clone() })
    }
}

/// Two servers whose tools would have the same names: both are out, since nobody knows which one is meant.
fn refuse_clashes(entries: &mut [Entry]) {
    let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, entry) in entries.iter().enumerate() {
        if let Some(slug) = slug_key(&entry.name) {
            owners.entry(slug).or_default().push(place);
        }
    }
    for clash in owners.values().filter(|owners| owners.len() > 1) {
        let files: Vec<PathBuf> = clash.iter().map(|place| entries[*place].file.clone()).collect();
        for place in clash {
            let entry = &mut entries[*place];
            let mut findings = Findings::new(entry.file.clone());
            for other in files.iter().filter(|other| **other != entry.file) {
                findings.unusable(
                    format!("would give its tools the names of those of {}", other.display()),
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

/// What two servers must not have in common: names that differ in capital letters only are told apart by no model.
fn slug_key(name: &str) -> Option<String> {
    tool_name::slug(name).map(|slug| slug.to_ascii_lowercase())
}

fn stem(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A path in the folder that nothing is at.
pub(super) fn free_path(folder: &Path, name: &str, ending: &str) -> PathBuf {
    let first = folder.join(format!("{name}.{ending}"));
    let others = (2..).map(|count| folder.join(format!("{name}-{count}.{ending}")));
    std::iter::once(first).chain(others).find(|path| path.symlink_metadata().is_err()).unwrap_or_default()
}

fn parse(file: &Path, format: Format, text: &str) -> Result<Map<String, Value>, Vec<Problem>> {
    format.parse(text).map_err(|what| {
        let mut findings = Findings::new(file.to_owned());
        let fix = match what.starts_with("is not an object") || what == "is empty" {
            true => r#"write an object, such as {"command": "npx"}"#,
            false => "correct it there",
        };
        findings.unusable(what, fix);
        findings.problems
    })
}

fn read_text(file: &Path) -> Result<String, Vec<Problem>> {
    read_bounded(file, MAX_BYTES).map_err(|(what, fix)| {
        let mut findings = Findings::new(file.to_owned());
        findings.unusable(what, fix);
        findings.problems
    })
}
