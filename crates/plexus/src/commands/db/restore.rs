//! Filling an empty database and data folder from a copy.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use plexus_kit::Supervisor;
use plexus_store::archive::{self, Restored};
use plexus_store::{Snapshot, StoreOptions};
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
    plexus_hub::prepare_data_dir(&options.data_dir)?;
    let out = &invocation.out;
    let progress = out.progress("Restoring");
    let supervisor = Supervisor::new();
    let mut tell = |what: &str, count: u64| progress.tell(&format!("Restoring {what}: {count}"));
    let restored = archive::restore(&options, source, &supervisor, &mut tell).await;
    supervisor.shutdown(GRACE).await;
    let Restored { header, manifest } =
        restored.with_context(|| format!("nothing was restored from {}", args.file.display()))?;
    progress.finish("Restored");
    let intact = is_intact(&options).await?;
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
            "Restored {} rows and {} files of {} into {}.",
            manifest.rows(),
            manifest.files.len(),
            out.at(header.created_at),
            options.data_dir.display(),
        ))?;
        match intact {
            true => out.note("The audit is intact. Start the hub with the same flags: plexus up"),
            false => out.note("The audit is not intact: `plexus audit verify` says what is wrong."),
        }
    }
    Ok(Exit::Ok.into())
}

/// Whether what was restored verifies with the keys and the signed head that are in the folder now.
async fn is_intact(options: &StoreOptions) -> anyhow::Result<bool> {
    let (Some(anchor), Some(mut snapshot)) = (backup::anchor(options)?, Snapshot::open(options).await?)
    else {
        return Ok(false);
    };
    Ok(snapshot.verify_audit(&options.instance_id, anchor.read(), &anchor).await?.ok)
}
