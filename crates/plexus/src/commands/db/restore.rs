//! Filling an empty database and data folder from a copy.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use plexus_kit::Supervisor;
use plexus_store::archive::{self, Restored};
use plexus_store::{DatabaseNote, DatabasePlace, Snapshot, StoreOptions};
use serde_json::json;

use super::{Place, backup};
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};

/// For a database to close.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// Backup or export to read; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &RestoreArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let options = args.place.options(invocation)?;
    let source: Box<dyn Read> = match args.file.as_path() {
        path if path == Path::new("-") => Box::new(io::stdin().lock()),
        path => {
            let file =
                fs_err::File::open(path).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            Box::new(io::BufReader::new(file))
        }
    };
    let fresh = Fresh::note(&options);
    plexus_hub::prepare_data_dir(&options.data_dir)?;
    let out = &invocation.out;
    let progress = out.progress("Restoring");
    let supervisor = Supervisor::new();
    let mut tell = |what: &str, count: u64| progress.tell(&format!("Restoring {what}: {count}"));
    let restored = archive::restore(&options, source, &supervisor, &mut tell).await;
    supervisor.shutdown(GRACE).await;
    if restored.is_err() {
        fresh.clear();
    }
    let Restored { header, manifest } =
        restored.with_context(|| format!("nothing was restored from {}", args.file.display()))?;
    progress.finish("Restored");
    let (intact, place) = settle(&options).await?;
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
            "Restored {} rows of {} into {place}, and {} files into {}.",
            manifest.rows(),
            out.at(header.created_at),
            manifest.files.len(),
            options.data_dir.display(),
        ))?;
        match intact {
            true => out.note("The audit is intact. Start the hub with the same flags: plexus up"),
            false => out.note("The audit is not intact: `plexus audit verify` says what is wrong."),
        }
    }
    Ok(Exit::Ok.into())
}

/// Notes that the folder belongs to the restored database. Whether it verifies with the keys and the signed head that are
/// in the folder now, and where it is.
async fn settle(options: &StoreOptions) -> anyhow::Result<(bool, String)> {
    let mut snapshot = Snapshot::open(options).await?.ok_or_else(|| super::no_database(options))?;
    let place = snapshot.location().to_owned();
    // The folder belongs to this database from now on.
    if let Some(store_id) = snapshot.store_id(&options.instance_id).await? {
        DatabaseNote { place: DatabasePlace::of(options)?, store_id }.keep(&options.data_dir)?;
    }
    let Some(anchor) = backup::anchor(options)? else { return Ok((false, place)) };
    let report = snapshot.verify_audit(&options.instance_id, anchor.read(), &anchor).await?;
    Ok((report.ok, place))
}

/// What a restore that failed has to take away again: what was not there before it.
struct Fresh(Vec<PathBuf>);

impl Fresh {
    fn note(options: &StoreOptions) -> Self {
        let folder = &options.data_dir;
        let files =
            ["plexus.db", "plexus.db-wal", "plexus.db-shm", "plexus.lock"].map(|name| folder.join(name));
        let made = files.into_iter().chain([folder.clone()]).filter(|path| !path.exists());
        Self(made.collect())
    }

    fn clear(self) {
        for path in self.0 {
            // Not there, or not empty: then it is not ours to take away.
            let _ = if path.is_dir() { fs_err::remove_dir(&path) } else { fs_err::remove_file(&path) };
        }
    }
}
