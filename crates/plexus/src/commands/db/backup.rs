//! Copies a hub into one file, whether it runs or not.
//!
//! The copy is a snapshot: one read transaction, and an audit head signed for it. The head is signed
//! only if the audit log matches the head that the hub signed; otherwise that head is copied unchanged,
//! so that a copy never makes a broken log look intact.

use std::io::{self, IsTerminal, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use plexus_auth::{AuditAnchor, KeyRing, SEALING_KEY};
use plexus_kit::{Clock, private_file};
use plexus_proto::api::AuditHead;
use plexus_store::archive::{self, AuditState, Content, Manifest};
use plexus_store::{JournalCopy, NoWitness, Snapshot, StoreOptions, Witness};
use serde_json::json;

use super::settings_files::SettingsFiles;
use super::{DatabaseArgs, existing_database, no_database, status, store_options};
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// File to write, such as backup.tar.gz; - for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Whether the archive contains the keys, so that it can become a hub again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveKeys {
    Included,
    Excluded,
}

pub(super) async fn run(
    args: &BackupArgs,
    keys: ArchiveKeys,
    invocation: &Invocation<'_>,
) -> anyhow::Result<ExitCode> {
    let mut config = args.database.config(invocation)?;
    let (servers, tools) = (mem::take(&mut config.upstreams.dir), mem::take(&mut config.tools.dir));
    let options = existing_database(store_options(&config))?;
    let target = BackupFile::open(&args.file, args.force)?;
    let anchor = anchor(&options)?;
    let witness: &dyn Witness = anchor.as_ref().map_or(&NoWitness, |anchor| anchor);
    // Read before the snapshot: the file is written after the table, so the snapshot contains this head.
    let signed = anchor.as_ref().map_or(Ok(None), AuditAnchor::read);
    let journal = JournalCopy::take(&options)?;
    let mut snapshot = Snapshot::open(&options).await?.ok_or_else(|| no_database(&options))?;
    let out = &invocation.out;
    let progress = out.progress("Verifying the audit");
    let mut audit = Vec::new();
    for head in snapshot.audit_heads().await? {
        // The signed head of another hub is in that hub's folder, so here its chain is only checked by itself.
        let own = head.hub == options.instance_id;
        let signed = if own { signed.clone() } else { Ok(Some(head.clone())) };
        let report = snapshot.verify_audit(&head.hub, signed, witness).await?;
        audit.push(AuditState { head, ok: report.ok });
    }
    let intact = audit.iter().all(|state| state.ok);
    let (mut files, left_out) = match keys {
        ArchiveKeys::Included => {
            let own = audit.iter().find(|state| state.ok && state.head.hub == options.instance_id);
            let mut files = hub_files(&options, anchor.as_ref(), own.map(|state| &state.head))?;
            let settings = SettingsFiles::read(&options.data_dir, &servers, &tools)?;
            files.extend(settings.files);
            (files, settings.left_out)
        }
        ArchiveKeys::Excluded => (vec![], vec![]),
    };
    // Acknowledged records that are not in the rows yet; a hub that starts on the copy stores them.
    let rest = journal.rest(&mut snapshot, &options.instance_id).await?;
    files.extend(rest.map(|(name, segment)| (name, Content::Bytes(segment))));
    let mut on_progress = |table: &str, count: u64| progress.tell(&format!("Copying {table}: {count}"));
    let BackupFile { writer, file } = target;
    let (manifest, writer) =
        archive::write(&mut snapshot, writer, files, audit, out.now(), &mut on_progress).await?;
    let written = BackupFile { writer, file }.close(args)?;
    progress.finish("Copied the database");
    report(out, args, &manifest, written, intact, &left_out)?;
    if intact {
        return Ok(Exit::Ok.into());
    }
    let message = "the copy was written, but its audit log is not intact";
    Err(Failure::new(Exit::Problems, message).hint("`plexus audit verify` lists the problems").into())
}

fn report(
    out: &Output,
    args: &BackupArgs,
    manifest: &Manifest,
    bytes: Option<u64>,
    intact: bool,
    left_out: &[PathBuf],
) -> anyhow::Result<()> {
    for path in left_out.iter().filter(|_| !out.json()) {
        out.note(&format!("Not in the copy: {}", path.display()));
    }
    // The copy itself went to standard output.
    let Some(bytes) = bytes else { return Ok(()) };
    if out.json() {
        let tables: serde_json::Map<_, _> =
            manifest.tables.iter().map(|table| (table.name.clone(), json!(table.count))).collect();
        let line = json!({
            "file": args.file,
            "bytes": bytes,
            "rows": tables,
            "files": manifest.files.len(),
            "left_out": left_out,
            "audit_intact": intact,
        });
        return out.json_line(&line.to_string());
    }
    out.line(&format!(
        "Wrote {} rows and {} files to {} ({}).",
        manifest.rows(),
        manifest.files.len(),
        args.file.display(),
        status::size(i64::try_from(bytes).unwrap_or(i64::MAX)),
    ))
}

/// Signs and reads the audit head; none if no hub was started on the folder yet.
pub(in crate::commands) fn anchor(options: &StoreOptions) -> anyhow::Result<Option<AuditAnchor>> {
    let keys = KeyRing::load(&options.data_dir, Clock::system())?;
    let path = options.data_dir.join("audit.head");
    Ok(keys.map(|keys| AuditAnchor::new(path, Arc::new(keys), options.durability)))
}

/// The files of the data folder that a hub needs besides the database.
fn hub_files(
    options: &StoreOptions,
    anchor: Option<&AuditAnchor>,
    intact: Option<&AuditHead>,
) -> anyhow::Result<Vec<(String, Content)>> {
    let folder = &options.data_dir;
    let Some(key) = private_file::read(&folder.join("signing-key"))? else {
        let message = format!("there is no signing-key in {}", folder.display());
        return Err(Failure::new(Exit::Failed, message)
            .hint("`plexus db export` copies only the database")
            .into());
    };
    let mut files = vec![("signing-key".to_owned(), Content::Bytes(key))];
    // Without this key, the credentials of servers in the database cannot be decrypted.
    if let Some(key) = private_file::read(&folder.join(SEALING_KEY))? {
        files.push((SEALING_KEY.to_owned(), Content::Bytes(key)));
    }
    if let Some(head) = head_file(folder, anchor, intact)? {
        files.push(("audit.head".to_owned(), Content::Bytes(head)));
    }
    for tree in ["retired-keys", "sessions"] {
        collect(folder, Path::new(tree), &mut files)?;
    }
    Ok(files)
}

fn head_file(
    folder: &Path,
    anchor: Option<&AuditAnchor>,
    intact: Option<&AuditHead>,
) -> anyhow::Result<Option<Vec<u8>>> {
    match (anchor, intact) {
        (Some(anchor), Some(head)) => Ok(Some(anchor.signed(head)?)),
        _ => Ok(private_file::read(&folder.join("audit.head"))?),
    }
}

/// Adds every regular file below a folder, with its path relative to the data folder.
fn collect(folder: &Path, below: &Path, files: &mut Vec<(String, Content)>) -> anyhow::Result<()> {
    let entries = match fs_err::read_dir(folder.join(below)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs_err::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (below.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            collect(folder, &path, files)?;
        // A file that is being written has a temporary name.
        } else if kind.is_file() && !path.to_string_lossy().contains(".tmp") {
            let Some(name) = path.to_str() else { bail!("the name of {} is not UTF-8", path.display()) };
            files.push((name.to_owned(), Content::File(entry.path())));
        }
    }
    Ok(())
}

/// The output: standard output, or a temporary file that is renamed when it is complete.
struct BackupFile {
    writer: Box<dyn Write>,
    file: Option<tempfile::NamedTempFile>,
}

impl BackupFile {
    fn open(path: &Path, force: bool) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            if io::stdout().is_terminal() {
                return Err(Failure::new(Exit::Usage, "cannot write an archive to a terminal")
                    .hint("name a file, or use a pipe: plexus db backup - | …")
                    .into());
            }
            return Ok(Self { writer: Box::new(io::stdout().lock()), file: None });
        }
        if path.exists() && !force {
            let message = format!("{} already exists", path.display());
            return Err(Failure::new(Exit::Usage, message)
                .hint("choose another name, or add --force")
                .into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::NamedTempFile::new_in(folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(Self { writer: Box::new(io::BufWriter::new(file.reopen()?)), file: Some(file) })
    }

    /// Renames the complete copy to its final name and returns its size; none on standard output.
    fn close(mut self, args: &BackupArgs) -> anyhow::Result<Option<u64>> {
        self.writer.flush().context("cannot write the copy")?;
        let Some(file) = self.file else { return Ok(None) };
        file.as_file().sync_all().context("cannot write the copy")?;
        let bytes = file.as_file().metadata()?.len();
        let renamed = if args.force { file.persist(&args.file) } else { file.persist_noclobber(&args.file) };
        renamed.with_context(|| format!("cannot write {}", args.file.display()))?;
        Ok(Some(bytes))
    }
}
