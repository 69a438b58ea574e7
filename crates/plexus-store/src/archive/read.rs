//! Restores an archive into an empty database and data folder, all or nothing.

use std::collections::HashMap;
use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aws_lc_rs::digest;
use flate2::read::GzDecoder;
use plexus_kit::{Supervisor, hex, private_file};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::settings::{MAX_SETTING, MAX_SETTINGS, is_setting, parts};
use super::tables::{Table, tables};
use super::{
    AuditState, FORMAT, Header, JOURNAL, MAX_CHUNK, Manifest, Progress, Summary, TableColumns, io, wrong,
};
use crate::conn::{Sql, chunk_sizes, placeholders};
use crate::store::exclusive;
use crate::{Conn, StoreError, StoreOptions, Witness, dialect, journal};

/// Staging folder for files until the whole archive has been read.
const STAGE: &str = "restore.tmp";
const MAX_JSON: u64 = 4 << 20;

/// Content of a restored archive.
#[derive(Debug)]
pub struct Restored {
    pub header: Header,
    pub manifest: Manifest,
}

/// Restores an archive. The database must be empty, and the data folder must contain no keys or the same
/// ones.
pub async fn restore(
    options: &StoreOptions,
    archive: impl Read,
    supervisor: &Supervisor,
    progress: Progress<'_>,
) -> Result<Restored, StoreError> {
    let opened = exclusive(options, supervisor).await?;
    let (mut connection, _locks, journal) = (opened.connection, opened.locks, opened.journal);
    check_no_journal(&journal)?;
    let conn = connection.conn()?;
    let tables = tables(conn).await?;
    check_empty(conn, &tables).await?;
    let stage = options.data_dir.join(STAGE);
    conn.begin().await?;
    let outcome = Restoring {
        conn,
        stage: &stage,
        data_dir: &options.data_dir,
        journal: &journal,
        tables: &tables,
        totals: HashMap::new(),
        files: vec![],
        settings: 0,
    }
    .run(archive, progress)
    .await;
    let cleaned = fs_err::remove_dir_all(&stage);
    if let Err(error) = cleaned
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "cannot remove the staging folder");
    }
    let conn = connection.conn()?;
    match outcome {
        Ok(restored) => {
            conn.execute("committing a restore", "COMMIT", vec![]).await?;
            connection.close().await?;
            Ok(restored)
        }
        Err(error) => {
            conn.execute("rolling back a restore", "ROLLBACK", vec![]).await?;
            Err(error)
        }
    }
}

async fn check_empty(conn: &mut Conn, tables: &[Table]) -> Result<(), StoreError> {
    for table in tables.iter().filter(|table| table.name != "meta") {
        if !table.page(conn, None, 1).await?.is_empty() {
            return Err(StoreError::NotEmpty { table: table.name });
        }
    }
    Ok(())
}

/// Records left by a hub must only be replayed into the database state that they follow.
fn check_no_journal(folder: &Path) -> Result<(), StoreError> {
    let shown = folder.display();
    match journal::is_empty(folder) {
        Ok(true) => Ok(()),
        Ok(false) => Err(wrong(format!(
            "{shown} contains records of a hub that did not stop cleanly; start and stop that hub once on its old database, or \
             move the folder away"
        ))),
        Err(error) => Err(io(&shown.to_string())(error)),
    }
}

struct Restoring<'r> {
    conn: &'r mut Conn,
    stage: &'r Path,
    data_dir: &'r Path,
    /// Destination of the journal.
    journal: &'r Path,
    tables: &'r [Table],
    /// Totals of the tables read so far.
    totals: HashMap<&'static str, Reading>,
    files: Vec<Summary>,
    /// Number of user-written files.
    settings: usize,
}

/// Running totals of a table that is being read.
struct Reading {
    count: u64,
    hash: digest::Context,
}

impl Default for Reading {
    fn default() -> Self {
        Self { count: 0, hash: digest::Context::new(&digest::SHA256) }
    }
}

impl Restoring<'_> {
    async fn run(mut self, archive: impl Read, progress: Progress<'_>) -> Result<Restored, StoreError> {
        let failed = io("reading the archive");
        let mut archive = tar::Archive::new(GzDecoder::new(archive));
        let mut header: Option<Header> = None;
        let mut manifest: Option<Manifest> = None;
        self.conn.execute("emptying meta", "DELETE FROM meta", vec![]).await?;
        for entry in archive.entries().map_err(&failed)? {
            let mut entry = entry.map_err(&failed)?;
            let path = entry.path().map_err(&failed)?.into_owned();
            if entry.header().entry_type() != tar::EntryType::Regular {
                return Err(wrong(format!("{} is not a plain file", path.display())));
            }
            let name = path.to_str().ok_or_else(|| wrong("a name in the archive is not valid text"))?;
            match (name, &header, &manifest) {
                ("header.json", None, None) => {
                    header = Some(check_header(json(name, &mut entry)?, self.tables)?)
                }
                ("manifest.json", Some(_), None) => manifest = Some(json(name, &mut entry)?),
                (_, Some(_), None) if name.starts_with("tables/") => {
                    self.chunk(name, bytes(name, MAX_CHUNK, &mut entry)?, progress).await?;
                }
                (_, Some(_), None) if name.starts_with("files/") => {
                    progress(name, 0);
                    self.file(&path, &mut entry)?;
                }
                _ => {
                    return Err(wrong(format!("{name} is unexpected here; is this a Plexus archive?")));
                }
            }
        }
        let header = header.ok_or_else(|| wrong("it is empty; is this a Plexus archive?"))?;
        let manifest = manifest.ok_or_else(|| wrong("it is truncated: the manifest is missing"))?;
        self.check(&manifest).await?;
        self.conn.mark_node_calls_sent().await?;
        self.move_files(&header)?;
        Ok(Restored { header, manifest })
    }

    async fn chunk(&mut self, name: &str, lines: Vec<u8>, progress: Progress<'_>) -> Result<(), StoreError> {
        let table = name.split('/').nth(1).unwrap_or_default();
        let tables = self.tables;
        let table = tables.iter().find(|known| known.name == table);
        let table =
            table.ok_or_else(|| wrong(format!("{name} belongs to a table unknown to this version")))?;
        let rows: Vec<Vec<Json>> = serde_json::Deserializer::from_slice(&lines)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|e| wrong(format!("{name}: {e}")))?;
        let count = rows.len() as u64;
        self.insert(table, rows).await?;
        let read = self.totals.entry(table.name).or_default();
        read.count += count;
        read.hash.update(&lines);
        progress(table.name, read.count);
        Ok(())
    }

    async fn insert(&mut self, table: &Table, rows: Vec<Vec<Json>>) -> Result<(), StoreError> {
        let total = rows.len();
        let mut rows = rows.into_iter();
        for size in chunk_sizes(total) {
            let mut values = Vec::with_capacity(size * table.columns.len());
            for row in rows.by_ref().take(size) {
                if row.len() != table.columns.len() {
                    return Err(wrong(format!("a row of {} has {} columns", table.name, row.len())));
                }
                for (column, json) in table.columns.iter().zip(row) {
                    values.push(column.value(json)?);
                }
            }
            let values_sql = placeholders(size, table.columns.len());
            let sql = format!("INSERT INTO {} ({}) VALUES {values_sql}", table.name, table.column_names());
            self.conn.execute("restoring rows", Sql::Built(sql), values).await?;
        }
        Ok(())
    }

    /// Stages a file; it is moved to its destination once everything was verified.
    fn file(&mut self, path: &Path, content: &mut impl Read) -> Result<(), StoreError> {
        let path = path.strip_prefix("files").unwrap_or(path);
        if !may_restore(path) {
            return Err(wrong(format!("files/{} is not a file of a data folder", path.display())));
        }
        let most = if is_setting(path) {
            self.settings += 1;
            MAX_SETTING
        } else {
            u64::MAX
        };
        if self.settings > MAX_SETTINGS {
            return Err(wrong(format!("it contains more than {MAX_SETTINGS} server and profile files")));
        }
        let target = self.stage.join(path);
        let name = path.display().to_string();
        let failed = io(&name);
        if let Some(folder) = target.parent() {
            fs_err::create_dir_all(folder).map_err(&failed)?;
        }
        let mut file = fs_err::File::create(&target).map_err(&failed)?;
        fs_err::set_permissions(&target, Permissions::from_mode(0o600)).map_err(&failed)?;
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut buffer = vec![0; 64 * 1024];
        let mut count = 0;
        loop {
            let read = content.read(&mut buffer).map_err(&failed)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            std::io::Write::write_all(&mut file, &buffer[..read]).map_err(&failed)?;
            count += read as u64;
            if count > most {
                return Err(wrong(format!("files/{name} is too large")));
            }
        }
        file.sync_all().map_err(&failed)?;
        self.files.push(Summary { name: name.clone(), count, sha256: hex::encode(hash.finish().as_ref()) });
        Ok(())
    }

    /// Verifies what was read against the manifest.
    async fn check(&mut self, manifest: &Manifest) -> Result<(), StoreError> {
        for expected in &manifest.tables {
            let read = self.totals.remove(expected.name.as_str()).unwrap_or_default();
            let sha256 = hex::encode(read.hash.finish().as_ref());
            if read.count != expected.count || sha256 != expected.sha256 {
                let name = &expected.name;
                return Err(wrong(format!(
                    "the rows of {name} do not match the manifest; the archive is damaged"
                )));
            }
        }
        if let Some(name) = self.totals.keys().next() {
            return Err(wrong(format!("the rows of {name} are not in the manifest; the archive is damaged")));
        }
        if self.files != manifest.files {
            return Err(wrong("its files do not match the manifest; the archive is damaged"));
        }
        let rows = self.conn.rows("listing hubs", "SELECT DISTINCT hub FROM audit", vec![]).await?;
        for row in rows {
            let hub = row.text(0)?;
            if !manifest.audit.iter().any(|state| state.head.hub == hub) {
                return Err(wrong(format!("the audit log of {hub} is not in the manifest")));
            }
        }
        for AuditState { head, ok } in &manifest.audit {
            let report = self.conn.verify_audit(&head.hub, Ok(Some(head.clone())), &TrustingWitness).await?;
            // A broken chain is restored as it was; an intact one must still be intact.
            if (*ok && !report.ok) || report.head.as_ref() != Some(head) {
                return Err(wrong(format!("the audit log of {} does not match the archived one", head.hub)));
            }
        }
        Ok(())
    }

    /// Moves the staged files to their destinations.
    fn move_files(&self, header: &Header) -> Result<(), StoreError> {
        let folder = self.data_dir.display();
        if !header.keys && !self.data_dir.join("signing-key").exists() {
            return Err(wrong(format!(
                "it is an export without keys, and {folder} has none either; restore a backup, or copy \
                 signing-key, retired-keys and audit.head there first"
            )));
        }
        // Check all files before moving the first.
        let mut moves = Vec::new();
        for Summary { name, .. } in &self.files {
            let from = self.stage.join(name);
            let to = match Path::new(name).strip_prefix(JOURNAL) {
                Ok(segment) => self.journal.join(segment),
                Err(_) => self.data_dir.join(name),
            };
            let failed = io(name);
            match fs_err::read(&to) {
                Ok(there) if there == fs_err::read(&from).map_err(&failed)? => {}
                Ok(_) => {
                    return Err(wrong(format!(
                        "{folder} already contains a different {name}; choose an empty folder"
                    )));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => moves.push((name, from, to)),
                Err(error) => return Err(failed(error)),
            }
        }
        for (name, from, to) in moves {
            let failed = io(name);
            if let Some(parent) = to.parent() {
                private_file::create_dir(parent).map_err(&failed)?;
            }
            fs_err::rename(&from, &to).map_err(&failed)?;
        }
        Ok(())
    }
}

/// Accepts every retention notice: the keys to verify them are only known once those of the archive are in
/// place.
#[derive(Debug)]
struct TrustingWitness;

impl Witness for TrustingWitness {
    fn sign(&self, _: &str) -> String {
        String::new()
    }

    fn is_valid_signature(&self, _: &str, _: &str) -> bool {
        true
    }
}

fn check_header(header: Header, tables: &[Table]) -> Result<Header, StoreError> {
    let current = dialect::SCHEMA;
    if header.format != FORMAT || header.schema != current {
        return Err(wrong(format!(
            "it has format {} and schema {}, written by Plexus {}; this version restores format {FORMAT} and schema \
             {current}. Restore it with that version and then upgrade",
            header.format, header.schema, header.version
        )));
    }
    let known = tables.iter().map(TableColumns::of);
    if !known.eq(header.tables.iter().cloned()) {
        return Err(wrong("its tables do not have the columns of this version"));
    }
    Ok(header)
}

/// Allows only paths that belong to a data folder.
fn may_restore(path: &Path) -> bool {
    match parts(path).as_deref() {
        Some(["signing-key" | "sealing-key" | "audit.head"] | ["retired-keys", _]) => true,
        Some(["sessions", rest @ ..]) => !rest.is_empty(),
        Some([JOURNAL, segment]) => journal::is_segment(Path::new(segment)),
        _ => is_setting(path),
    }
}

fn json<T: DeserializeOwned>(name: &str, entry: &mut impl Read) -> Result<T, StoreError> {
    serde_json::from_slice(&bytes(name, MAX_JSON, entry)?).map_err(|e| wrong(format!("{name}: {e}")))
}

fn bytes(name: &str, most: u64, entry: &mut impl Read) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    entry.take(most + 1).read_to_end(&mut bytes).map_err(io(name))?;
    if bytes.len() as u64 > most {
        return Err(wrong(format!("{name} is too large")));
    }
    Ok(bytes)
}
