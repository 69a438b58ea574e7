//! Copying a hub into one file, while it runs or not.
//!
//! The copy is of one moment: one read transaction, and a head of the audit that is signed for it. It is
//! signed only if the audit verified against the head that the hub signed; otherwise that head is copied
//! as it is, so that a copy never makes a broken record look whole.

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

use super::settings::Settings;
use super::{Place, check_own, no_database, status, store_options};
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// File to write, such as backup.tar.gz; - for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: Place,
}

/// Whether the copy can become a hub again, or only its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Included,
    LeftOut,
}

pub(super) async fn run(
    args: &BackupArgs,
    keys: Keys,
    invocation: &Invocation<'_>,
) -> anyhow::Result<ExitCode> {
    let mut config = args.place.config(invocation)?;
    let (servers, tools) = (mem::take(&mut config.upstreams.dir), mem::take(&mut config.tools.dir));
    let options = store_options(config);
    check_own(&options)?;
    let target = Target::open(&args.file, args.force)?;
    let anchor = anchor(&options)?;
    let witness: &dyn Witness = anchor.as_ref().map_or(&NoWitness, |anchor| anchor);
    // Before the snapshot: the file follows the table, so this head is in the snapshot.
    let signed = anchor.as_ref().map_or(Ok(None), AuditAnchor::read);
    let journal = JournalCopy::take(&options)?;
    let mut snapshot = Snapshot::open(&options).await?.ok_or_else(|| no_database(&options))?;
    let out = &invocation.out;
    let progress = out.progress("Verifying the audit");
    let mut audit = Vec::new();
    for head in snapshot.audit_heads().await? {
        // What another hub signed is in that hub's folder; here its chain can only be checked in itself.
        let own = head.hub == options.instance_id;
        let signed = if own { signed.clone() } else { Ok(Some(head.clone())) };
        let report = snapshot.verify_audit(&head.hub, signed, witness).await?;
        audit.push(AuditState { head, ok: report.ok });
    }
    let intact = audit.iter().all(|state| state.ok);
    let (mut files, left_out) = match keys {
        Keys::Included => {
            let own = audit.iter().find(|state| state.ok && state.head.hub == options.instance_id);
            let mut files = files(&options, anchor.as_ref(), own.map(|state| &state.head))?;
            let settings = Settings::read(&options.data_dir, &servers, &tools)?;
            files.extend(settings.files);
            (files, settings.left_out)
        }
        Keys::LeftOut => (vec![], vec![]),
    };
    // What was acknowledged and is not in the rows; a hub that starts on the copy stores it.
    let rest = journal.rest(&mut snapshot, &options.instance_id).await?;
    files.extend(rest.map(|(name, segment)| (name, Content::Bytes(segment))));
    let mut tell = |what: &str, count: u64| progress.tell(&format!("Copying {what}: {count}"));
    let Target { writer, file } = target;
    let (manifest, writer) =
        archive::write(&mut snapshot, writer, files, audit, out.now(), &mut tell).await?;
    let written = Target { writer, file }.close(args)?;
    progress.finish("Copied the database");
    report(out, args, &manifest, written, intact, &left_out)?;
    if intact {
        return Ok(Exit::Ok.into());
    }
    let message = "the copy was made, but the audit in it is not intact";
    Err(Failure::new(Exit::Problems, message).hint("`plexus audit verify` says what is wrong").into())
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
    // Standard output holds the copy itself.
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

/// What signs and reads the head of the audit; none where no hub has been yet.
pub(in crate::commands) fn anchor(options: &StoreOptions) -> anyhow::Result<Option<AuditAnchor>> {
    let keys = KeyRing::load(&options.data_dir, Clock::system())?;
    let path = options.data_dir.join("audit.head");
    Ok(keys.map(|keys| AuditAnchor::new(path, Arc::new(keys), options.durability)))
}

/// The files of the data folder that make a hub of a database.
fn files(
    options: &StoreOptions,
    anchor: Option<&AuditAnchor>,
    intact: Option<&AuditHead>,
) -> anyhow::Result<Vec<(String, Content)>> {
    let folder = &options.data_dir;
    let Some(key) = private_file::read(&folder.join("signing-key"))? else {
        let message = format!("there is no signing-key in {}", folder.display());
        return Err(Failure::new(Exit::Failed, message)
            .hint("`plexus db export` copies a database alone")
            .into());
    };
    let mut files = vec![("signing-key".to_owned(), Content::Bytes(key))];
    // Without it nobody can use the credentials of servers that are among the rows.
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

/// Every plain file below a folder, by its path in the data folder.
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
        // What is being written has another name until it is whole.
        } else if kind.is_file() && !path.to_string_lossy().contains(".tmp") {
            let Some(name) = path.to_str() else { bail!("the name of {} is not text", path.display()) };
            files.push((name.to_owned(), Content::File(entry.path())));
        }
    }
    Ok(())
}

/// Where the copy goes: beside its final name until it is whole.
struct Target {
    writer: Box<dyn Write>,
    file: Option<tempfile::NamedTempFile>,
}

impl Target {
    fn open(path: &Path, force: bool) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            if io::stdout().is_terminal() {
                return Err(Failure::new(Exit::Usage, "an archive is not for a terminal")
                    .hint("name a file, or send it on: plexus db backup - | …")
                    .into());
            }
            return Ok(Self { writer: Box::new(io::stdout().lock()), file: None });
        }
        if path.exists() && !force {
            let message = format!("{} is there already", path.display());
            return Err(Failure::new(Exit::Usage, message)
                .hint("choose another name, or add --force")
                .into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::NamedTempFile::new_in(folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(Self { writer: Box::new(io::BufWriter::new(file.reopen()?)), file: Some(file) })
    }

    /// Gives the whole copy its name; its size, if it is a file.
    fn close(mut self, args: &BackupArgs) -> anyhow::Result<Option<u64>> {
        self.writer.flush().context("cannot write the copy")?;
        let Some(file) = self.file else { return Ok(None) };
        file.as_file().sync_all().context("cannot write the copy")?;
        let bytes = file.as_file().metadata()?.len();
        let kept = if args.force { file.persist(&args.file) } else { file.persist_noclobber(&args.file) };
        kept.with_context(|| format!("cannot write {}", args.file.display()))?;
        Ok(Some(bytes))
    }
}
