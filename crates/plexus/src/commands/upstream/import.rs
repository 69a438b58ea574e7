//! `plexus upstream import`: servers from the file of another program.

use std::path::PathBuf;

use clap::Args;
use plexus_proto::api::{ImportUpstreamsParams, UpstreamImport};

use crate::arguments;
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::{Output, warning};

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file
    file: PathBuf,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(out: &Output, hub: &Hub, args: &ImportArgs) -> anyhow::Result<()> {
    let name = args.file.file_name().map(|name| name.to_string_lossy().into_owned());
    let file_name = name.ok_or_else(|| Failure::new(Exit::Usage, "give the file to import"))?;
    let content = arguments::file(&args.file)?;
    let params = ImportUpstreamsParams { file_name, content, dry_run: args.dry_run };
    let answer = hub.post(&["upstreams", "-", "import"], &params, &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
    }
    let import: UpstreamImport = answer.decode()?;
    if !out.json() {
        show(out, &import)?;
    }
    if import.skipped.is_empty() {
        return Ok(());
    }
    let count = import.skipped.len();
    let message = format!("{count} of {} servers left out", count + import.added.len());
    Err(Failure::new(Exit::Failed, message).into())
}

fn show(out: &Output, import: &UpstreamImport) -> anyhow::Result<()> {
    for strange in &import.warnings {
        warning(strange);
    }
    let done = if import.dry_run { "would be added" } else { "added" };
    let added = import.added.iter().map(|one| vec![one.name.clone(), done.to_owned(), one.file.clone()]);
    let skipped =
        import.skipped.iter().map(|one| vec![one.name.clone(), "left out".to_owned(), one.reason.clone()]);
    let rows: Vec<Vec<String>> = added.chain(skipped).collect();
    match rows.is_empty() {
        true => out.note("There are no servers in this file."),
        false => out.table(&["NAME", "RESULT", "ABOUT"], rows)?,
    }
    match (import.added.is_empty(), import.dry_run) {
        (true, _) => {}
        (false, true) => out.note("Nothing was changed. Without --dry-run they are added."),
        (false, false) => out.note("`plexus upstream list` shows how they are doing."),
    }
    Ok(())
}
