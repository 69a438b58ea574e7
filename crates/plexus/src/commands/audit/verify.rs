//! `plexus audit verify`: verifies the audit log of one hub, through the hub, or from its data folder or a backup.
//!
//! The output names what was verified. Only the hub that runs on the data folder is asked; a folder without a hub, such as a
//! copy, is read directly.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use plexus_auth::{AuditAnchor, LastVerification};
use plexus_hub::{INSTANCE, prepare_data_dir};
use plexus_kit::{Durability, Supervisor};
use plexus_proto::api::{AuditReport, Status};
use plexus_store::archive::{self, Restored};
use plexus_store::{DatabaseLocation, DatabaseNote, NoWitness, Snapshot, StoreError, StoreOptions, Witness};
use serde_json::{Value, json};

use crate::client::Hub;
use crate::commands::db::{DatabaseArgs, backup};
use crate::commands::{FolderHub, Invocation};
use crate::failure::{Exit, Failure};
use crate::hub_file::Occupant;
use crate::output::Output;

/// Time limit for closing the database.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Backup to verify instead of a hub, made by `plexus db backup`
    #[arg(value_name = "BACKUP")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A report and its subject.
struct Verification {
    report: AuditReport,
    /// The subject as text.
    subject: String,
    /// The subject as JSON.
    verified: Value,
}

pub(super) async fn run(args: &VerifyArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let progress = out.progress("Verifying the audit");
    let verification = match &args.backup {
        Some(file) => verify_backup(file, out).await?,
        None => match invocation.hub_of_folder()? {
            FolderHub::Named(hub) | FolderHub::Default(hub) => verify_hub(&hub, None).await?,
            FolderHub::Runs { hub, folder } => verify_hub(&hub, Some(&folder)).await?,
            FolderHub::Unready { folder, pid } => return Err(unready(&folder, pid).into()),
            FolderHub::Down { folder } => {
                let verification = verify_folder(&folder, &args.database, invocation).await?;
                // The database was read as if nobody writes to it.
                if !verification.report.ok && !matches!(Occupant::of(&folder)?, Occupant::None) {
                    return Err(started_meanwhile(&folder).into());
                }
                let noted = LastVerification::new(&verification.report, out.now());
                if let Err(error) = noted.write(&folder) {
                    out.note(&format!("Cannot store the time of this verification in the folder: {error}"));
                }
                verification
            }
        },
    };
    progress.finish("Verified the audit");
    print(verification, out)
}

fn print(verification: Verification, out: &Output) -> anyhow::Result<ExitCode> {
    let Verification { report, subject, verified } = verification;
    if out.json() {
        let mut answer = serde_json::to_value(&report)?;
        answer["verified"] = verified;
        out.json_line(&answer.to_string())?;
    }
    // A report that contradicts itself does not count as intact.
    let intact = report.ok && report.problems.is_empty() && report.problem_count == 0;
    if intact {
        if !out.json() {
            let head =
                report.head.map_or_else(String::new, |head| format!(", newest {} {}", head.n, head.hash));
            out.line(&format!("Intact: {} entries of hub {}{head}; {subject}", report.entries, report.hub))?;
        }
        return Ok(Exit::Ok.into());
    }
    if !out.json() {
        for problem in &report.problems {
            out.line(&format!("{}: entry {}: {}", problem.kind, problem.n, problem.message))?;
        }
        let unnamed = report.problem_count.saturating_sub(report.problems.len() as u64);
        if unnamed > 0 {
            out.line(&format!("and {unnamed} more"))?;
        }
    }
    let count = report.problem_count.max(report.problems.len() as u64);
    let plural = if count == 1 { "" } else { "s" };
    let message = format!(
        "the audit record is not intact: {count} problem{plural} in {} entries of hub {}; {subject}",
        report.entries, report.hub
    );
    let hint = "copy the data folder as it is now before you investigate";
    Err(Failure::new(Exit::Problems, message).hint(hint).into())
}

async fn verify_hub(hub: &Hub, folder: Option<&Path>) -> anyhow::Result<Verification> {
    let report = hub.get(&["audit", "verify"], &[]).await?.decode()?;
    let url = hub.url();
    let folder = match folder {
        Some(folder) => Some(folder.to_owned()),
        None => reported_folder(hub).await,
    };
    let on = folder.as_ref().map(|folder| format!(" on the data folder {}", folder.display()));
    let subject = format!("verified by the hub at {url}{}", on.unwrap_or_default());
    let verified = json!({ "kind": "hub", "url": url, "data_dir": folder });
    Ok(Verification { report, subject, verified })
}

/// The data folder that a hub reports. Older hubs report none, and the token may not be allowed to read it.
async fn reported_folder(hub: &Hub) -> Option<PathBuf> {
    let status: Status = hub.get(&["status"], &[]).await.ok()?.decode().ok()?;
    (!status.data_dir.is_empty()).then(|| PathBuf::from(status.data_dir))
}

fn unready(folder: &Path, pid: Option<i32>) -> Failure {
    let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    let message = format!(
        "the data folder {} is in use by a process that accepts no requests{process}",
        folder.display()
    );
    let mut failure = Failure::new(Exit::Unreachable, message)
        .hint("it is a hub that is starting, or a `plexus db` command; try again when it is done");
    failure.retryable = true;
    failure
}

fn started_meanwhile(folder: &Path) -> Failure {
    let message = format!("a hub started on the data folder {} during the verification", folder.display());
    let mut failure =
        Failure::new(Exit::Unreachable, message).hint("try again; the running hub is asked then");
    failure.retryable = true;
    failure
}

async fn verify_folder(
    folder: &Path,
    database: &DatabaseArgs,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Verification> {
    let mut options = database.options(invocation)?;
    options.data_dir = folder.to_owned();
    let note = DatabaseNote::read(folder)?;
    // A URL from the environment or a file may belong to another hub; the note names the folder's own database file.
    if !database.names_database() && note.as_ref().is_some_and(|note| note.location.is_sqlite()) {
        options.database_url = None;
        options = options.with_noted_database()?;
    }
    let configured = DatabaseLocation::of(&options)?;
    let mismatch = |noted: &DatabaseNote| {
        let message = format!(
            "the data folder {} belongs to {}, not to {configured}",
            folder.display(),
            noted.location
        );
        let hint = "set the URL of its database with --database-url or PLEXUS_DATABASE_URL";
        Failure::new(Exit::Failed, message).hint(hint)
    };
    if let Some(note) = note.as_ref().filter(|note| note.location.is_sqlite() != configured.is_sqlite()) {
        return Err(mismatch(note).into());
    }
    let mut snapshot = Snapshot::glance(&options).await?.ok_or_else(|| no_database(folder))?;
    if let Some(note) = note
        && snapshot.store_id(INSTANCE).await? != Some(note.store_id)
    {
        return Err(mismatch(&note).into());
    }
    let database = snapshot.location().to_owned();
    let report = verify_snapshot(&mut snapshot, &options).await?;
    let shown = folder.display();
    let subject = format!("verified without a hub: the data folder {shown} with the database {database}");
    let verified = json!({ "kind": "data_folder", "data_dir": folder, "database": database });
    Ok(Verification { report, subject, verified })
}

fn no_database(folder: &Path) -> Failure {
    Failure::new(
        Exit::Unreachable,
        format!("no hub runs on {} and it contains no database", folder.display()),
    )
    .hint("name the hub with --hub, its data folder with --data-dir, or a backup to verify")
}

/// Compares the chain with the signed head in the folder.
async fn verify_snapshot(snapshot: &mut Snapshot, options: &StoreOptions) -> anyhow::Result<AuditReport> {
    let anchor = backup::anchor(options)?;
    let witness: &dyn Witness = anchor.as_ref().map_or(&NoWitness, |anchor| anchor);
    let no_key = || format!("there is no signing key in {}", options.data_dir.display());
    let signed = anchor.as_ref().map_or_else(|| Err(no_key()), AuditAnchor::read);
    Ok(snapshot.verify_audit(INSTANCE, signed, witness).await?)
}

/// Restores the backup, which contains keys, into a private temporary folder, verifies it there and removes the folder.
async fn verify_backup(file: &Path, out: &Output) -> anyhow::Result<Verification> {
    let shown = file.display();
    let source = fs_err::File::open(file).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    if source.metadata()?.is_dir() {
        let hint = format!("to verify a data folder: plexus audit verify --data-dir {shown}");
        return Err(Failure::new(Exit::Usage, format!("{shown} is a folder")).hint(hint).into());
    }
    let home = tempfile::tempdir().context("cannot create a temporary folder")?;
    let options = StoreOptions {
        data_dir: home.path().join("restored"),
        database_url: None,
        durability: Durability::Process,
        instance_id: INSTANCE.to_owned(),
    };
    prepare_data_dir(&options.data_dir)?;
    let supervisor = Supervisor::new();
    let restored =
        archive::restore(&options, io::BufReader::new(source), &supervisor, &mut |_: &str, _| {}).await;
    supervisor.shutdown(CLOSE_TIMEOUT).await;
    let Restored { header, .. } = restored.map_err(|error| unusable(file, error))?;
    let mut snapshot = Snapshot::glance(&options).await?.ok_or_else(|| no_database(file))?;
    let report = verify_snapshot(&mut snapshot, &options).await?;
    let subject = format!("verified without a hub: the backup {shown}, made {}", out.at(header.created_at));
    let verified =
        json!({ "kind": "backup", "file": file, "made_at": header.created_at, "made_from": header.database });
    Ok(Verification { report, subject, verified })
}

/// Converts the error of a restore. An archive that does not match its manifest was damaged or changed.
fn unusable(file: &Path, error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Archive(why) => {
            let message = format!("the backup {} does not verify: {why}", file.display());
            let hint = "an export has no keys and cannot be verified; use a file made by `plexus db backup`";
            Failure::new(Exit::Problems, message).hint(hint).into()
        }
        other => other.into(),
    }
}
