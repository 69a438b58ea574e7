//! Restores a copy into an empty database and data folder.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use plexus_kit::Supervisor;
use plexus_store::archive::{self, Restored};
use plexus_store::{DatabaseLocation, DatabaseNote, Snapshot, StoreOptions};
use serde_json::json;

use super::{DatabaseArgs, backup};
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};

/// Time limit for closing the database.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// Backup or export to read; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    database: DatabaseArgs,
}

pub(super) async fn run(args: &RestoreArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let options = args.database.options(invocation)?;
    let source: Box<dyn Read> = match args.file.as_path() {
        path if path == Path::new("-") => Box::new(io::stdin().lock()),
        path => {
            let file =
                fs_err::File::open(path).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            Box::new(io::BufReader::new(file))
        }
    };
    let created = CreatedPaths::missing(&options);
    plexus_hub::prepare_data_dir(&options.data_dir)?;
    let out = &invocation.out;
    let progress = out.progress("Restoring");
    let supervisor = Supervisor::new();
    let mut on_progress = |table: &str, count: u64| progress.tell(&format!("Restoring {table}: {count}"));
    let restored = archive::restore(&options, source, &supervisor, &mut on_progress).await;
    supervisor.shutdown(CLOSE_TIMEOUT).await;
    if restored.is_err() {
        created.remove();
    }
    let Restored { header, manifest } =
        restored.with_context(|| format!("nothing was restored from {}", args.file.display()))?;
    progress.finish("Restored");
    let (intact, location) = finish(&options).await?;
    if out.json() {
        let line = json!({
            "made_at": header.created_at,
            "made_from": header.database,
            "rows": manifest.rows(),
            "files": manifest.files.len(),
            "audit_intact": intact,
        });
        out.json_line(&line.to_string())?;
    } else {
        out.line(&format!(
            "Restored {} rows of {} into {location}, and {} files into {}.",
            manifest.rows(),
            out.at(header.created_at),
            manifest.files.len(),
            options.data_dir.display(),
        ))?;
        match intact {
            true => out.note("The audit log is intact. Start the hub with the same flags: plexus up"),
            false => out.note("The audit log is not intact: `plexus audit verify` lists the problems."),
        }
    }
    Ok(Exit::Ok.into())
}

/// Notes that the folder now belongs to the restored database. Returns whether the audit log verifies with the keys and the
/// signed head in the folder, and the location of the database.
async fn finish(options: &StoreOptions) -> anyhow::Result<(bool, String)> {
    let mut snapshot = Snapshot::open(options).await?.ok_or_else(|| super::no_database(options))?;
    let location = snapshot.location().to_owned();
    if let Some(store_id) = snapshot.store_id(&options.instance_id).await? {
        DatabaseNote { location: DatabaseLocation::of(options)?, store_id }
            .write_if_changed(&options.data_dir)?;
    }
    let Some(anchor) = backup::anchor(options)? else { return Ok((false, location)) };
    let report = snapshot.verify_audit(&options.instance_id, anchor.read(), &anchor).await?;
    Ok((report.ok, location))
}

/// Files that did not exist before the restore, to be removed if it fails.
struct CreatedPaths(Vec<PathBuf>);

impl CreatedPaths {
    fn missing(options: &StoreOptions) -> Self {
        let folder = &options.data_dir;
        let files =
            ["plexus.db", "plexus.db-wal", "plexus.db-shm", "plexus.lock"].map(|name| folder.join(name));
        let made = files.into_iter().chain([folder.clone()]).filter(|path| !path.exists());
        Self(made.collect())
    }

    fn remove(self) {
        for path in self.0 {
            // An error means that it does not exist, or is a folder that is not empty and therefore kept.
            let _ = if path.is_dir() { fs_err::remove_dir(&path) } else { fs_err::remove_file(&path) };
        }
    }
}
