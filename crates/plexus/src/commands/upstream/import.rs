//! `plexus upstream import`: imports servers from the configuration file of another program.

use std::path::PathBuf;

use clap::Args;
use plexus_bridge::document::Syntax;
use plexus_proto::api::{ImportUpstreamsParams, UpstreamImport};
use serde_json::{Value, json};

use super::allow::{AllowArgs, Owner};
use crate::arguments;
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::{Output, warning};

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// File to import from
    file: PathBuf,
    /// Show the result without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    allow: AllowArgs,
}

pub(super) async fn run(out: &Output, hub: &Hub, owner: &Owner<'_>, args: &ImportArgs) -> anyhow::Result<()> {
    let name = args.file.file_name().map(|name| name.to_string_lossy().into_owned());
    let file_name = name.ok_or_else(|| Failure::new(Exit::Usage, "give the file to import"))?;
    let content = yaml_to_json(arguments::read_file(&args.file)?)?;
    let params =
        |dry_run| ImportUpstreamsParams { file_name: file_name.clone(), content: content.clone(), dry_run };
    let request = async |dry_run| hub.post(&["upstreams", "-", "import"], &params(dry_run), &[]).await;
    if !args.dry_run && owner.can_allow() {
        let plan: UpstreamImport = request(true).await?.decode()?;
        let mut commands: Vec<String> = plan.skipped.into_iter().filter_map(|one| one.command).collect();
        commands.sort();
        commands.dedup();
        // Servers whose commands are not allowed are skipped, and the reason names the flag.
        if !commands.is_empty() {
            owner.permit(args.allow, &commands).await?;
        }
    }
    let answer = request(args.dry_run).await?;
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
    let message = format!("{count} of {} servers skipped", count + import.added.len());
    Err(Failure::new(Exit::Failed, message).into())
}

/// Converts the `extensions` of YAML, the format of goose, to JSON, because the hub reads only JSON and TOML. Any
/// other text is returned unchanged.
fn yaml_to_json(text: String) -> anyhow::Result<String> {
    const EXTENSIONS: &str = "extensions";
    if text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '['])
        || Syntax::Toml.value(&text).is_ok()
    {
        return Ok(text);
    }
    let Ok(value) = Syntax::Yaml.value(&text) else { return Ok(text) };
    let Some(extensions) = value.get(EXTENSIONS).filter(|extensions| extensions.is_object()) else {
        return Ok(text);
    };
    if has_alias(extensions) {
        let message = "the file uses YAML aliases (`*name`) in its extensions, which are not supported";
        return Err(Failure::new(Exit::Failed, message).hint("replace the aliases by their values").into());
    }
    Ok(json!({ EXTENSIONS: extensions }).to_string())
}

/// Whether a value contains an alias, which the YAML parser replaces by `*` and a hash.
fn has_alias(value: &Value) -> bool {
    const LENGTH: usize = 1 + 64;
    match value {
        Value::String(text) => text.len() == LENGTH && text.starts_with('*'),
        Value::Array(items) => items.iter().any(has_alias),
        Value::Object(fields) => fields.values().any(has_alias),
        _ => false,
    }
}

fn show(out: &Output, import: &UpstreamImport) -> anyhow::Result<()> {
    import.warnings.iter().for_each(|text| warning(text));
    import.notes.iter().for_each(|note| out.note(note));
    let result = if import.dry_run { "would be added" } else { "added" };
    let added = import.added.iter().map(|one| vec![one.name.clone(), result.to_owned(), one.file.clone()]);
    let skipped =
        import.skipped.iter().map(|one| vec![one.name.clone(), "skipped".to_owned(), one.reason.clone()]);
    let rows: Vec<Vec<String>> = added.chain(skipped).collect();
    match rows.is_empty() {
        true if import.notes.is_empty() => out.note("There are no servers in this file."),
        true => out.note("There are no other servers in this file."),
        false => out.table(&["NAME", "RESULT", "ABOUT"], rows)?,
    }
    match (import.added.is_empty(), import.dry_run) {
        (true, _) => {}
        (false, true) => out.note("Nothing was changed: this was a dry run."),
        (false, false) => out.note("`plexus upstream list` shows their state."),
    }
    Ok(())
}
