//! Writes an archive from a snapshot.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use aws_lc_rs::digest;
use flate2::Compression;
use flate2::write::GzEncoder;
use plexus_kit::hex;
use plexus_proto::Timestamp;
use serde_json::Value as Json;

use super::tables::{Table, tables};
use super::{AuditState, CHUNK, FORMAT, Header, Manifest, Progress, Summary, TableColumns, io};
use crate::{Snapshot, StoreError};

/// Rows read at a time.
const PAGE: i64 = 500;

/// Content of an entry below `files/`.
#[derive(Debug)]
pub enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Writes all rows of the snapshot, and the files with their paths in the data folder.
pub async fn write<W: Write>(
    snapshot: &mut Snapshot,
    out: W,
    files: Vec<(String, Content)>,
    audit: Vec<AuditState>,
    at: Timestamp,
    progress: Progress<'_>,
) -> Result<(Manifest, W), StoreError> {
    let mut archive = Archive { tar: tar::Builder::new(GzEncoder::new(out, Compression::fast())), at };
    let tables = tables(snapshot.conn()).await?;
    let header = Header {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schema: snapshot.schema_version().await?,
        created_at: at,
        database: snapshot.database().to_owned(),
        keys: files.iter().any(|(path, _)| path == "signing-key"),
        tables: tables.iter().map(TableColumns::of).collect(),
    };
    archive.json("header.json", &header)?;
    let mut manifest = Manifest { audit, ..Manifest::default() };
    for table in &tables {
        manifest.tables.push(archive.table(snapshot, table, progress).await?);
    }
    for (path, content) in files {
        progress(&path, 0);
        manifest.files.extend(archive.file(path, content)?);
    }
    archive.json("manifest.json", &manifest)?;
    let failed = io("writing the archive");
    let out = archive.tar.into_inner().and_then(GzEncoder::finish).map_err(failed)?;
    Ok((manifest, out))
}

impl TableColumns {
    pub(super) fn of(table: &Table) -> Self {
        let columns = table.columns.iter().map(|column| column.name().to_owned()).collect();
        Self { name: table.name.to_owned(), columns }
    }
}

struct Archive<W: Write> {
    tar: tar::Builder<GzEncoder<W>>,
    at: Timestamp,
}

impl<W: Write> Archive<W> {
    async fn table(
        &mut self,
        snapshot: &mut Snapshot,
        table: &Table,
        progress: Progress<'_>,
    ) -> Result<Summary, StoreError> {
        let (mut last, mut count, mut chunks): (Option<Vec<Json>>, u64, u32) = (None, 0, 0);
        let mut lines = Vec::new();
        let mut hash = digest::Context::new(&digest::SHA256);
        loop {
            let rows = table.page(snapshot.conn(), last.as_deref(), PAGE).await?;
            let ended = (rows.len() as i64) < PAGE;
            count += rows.len() as u64;
            for row in &rows {
                serde_json::to_writer(&mut lines, row).map_err(|e| io("writing a row")(e.into()))?;
                lines.push(b'\n');
            }
            last = rows.into_iter().next_back().or(last);
            if (ended && !lines.is_empty()) || lines.len() >= CHUNK {
                chunks += 1;
                hash.update(&lines);
                let name = format!("tables/{}/{chunks:06}.jsonl", table.name);
                self.entry(&name, lines.len() as u64, lines.as_slice())?;
                lines.clear();
            }
            progress(table.name, count);
            if ended {
                let sha256 = hex::encode(hash.finish().as_ref());
                return Ok(Summary { name: table.name.to_owned(), count, sha256 });
            }
        }
    }

    /// `None` if the file was deleted since it was listed, which may happen to session files.
    fn file(&mut self, path: String, content: Content) -> Result<Option<Summary>, StoreError> {
        let name = format!("files/{path}");
        let mut hash = digest::Context::new(&digest::SHA256);
        let size = match content {
            Content::Bytes(bytes) => {
                hash.update(&bytes);
                self.entry(&name, bytes.len() as u64, bytes.as_slice())?;
                bytes.len() as u64
            }
            Content::File(source) => {
                let failed = io(&path);
                let file = match fs_err::File::open(&source) {
                    Ok(file) => file,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(failed(error)),
                };
                let size = file.metadata().map_err(&failed)?.len();
                // A growing file is cut to its initial size; a shrinking one is padded.
                let whole = file.take(size).chain(io::repeat(0)).take(size);
                self.entry(&name, size, Hashing { inner: whole, hash: &mut hash })?;
                size
            }
        };
        Ok(Some(Summary { name: path, count: size, sha256: hex::encode(hash.finish().as_ref()) }))
    }

    fn json(&mut self, name: &str, value: &impl serde::Serialize) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec_pretty(value).map_err(|e| io(name)(e.into()))?;
        self.entry(name, bytes.len() as u64, bytes.as_slice())
    }

    fn entry(&mut self, name: &str, size: u64, content: impl Read) -> Result<(), StoreError> {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(self.at.as_second()).unwrap_or(0));
        self.tar.append_data(&mut header, name, content).map_err(io("writing the archive"))
    }
}

/// Hashes the data read through it.
struct Hashing<'h, R> {
    inner: R,
    hash: &'h mut digest::Context,
}

impl<R: Read> Read for Hashing<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}
