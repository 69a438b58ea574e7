//! `plexus upstream show` and `plexus upstream test`: displays one server in detail.

use plexus_proto::api::{
    QuarantinedTool, TestUpstreamParams, ToolFlag, UpstreamDetail, UpstreamEra, UpstreamState, UpstreamTest,
};

use super::add::tools;
use super::allow::{AllowArgs, Owner};
use super::is_unhealthy;
use super::server_args::ServerArgs;
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line, warning};
use crate::shell;

/// Maximum number of lines of standard error to print for a past failure.
const MAX_PAST_STDERR: usize = 3;

pub(super) async fn run(out: &Output, hub: &Hub, name: &str) -> anyhow::Result<()> {
    let answer = hub.get(&["upstreams", name], &[]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let UpstreamDetail { upstream, document } = answer.decode()?;
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    out.fields(&[
        ("name", upstream.name.clone()),
        ("state", upstream.state.as_str().to_owned()),
        ("since", out.at(upstream.since)),
        ("transport", or_none(upstream.transport.map(|transport| transport.as_str().to_owned()))),
        ("server", or_none(upstream.server)),
        ("revision", or_none(upstream.revision.map(|revision| revision_text(&revision, upstream.era)))),
        ("process", or_none(upstream.pid.map(|pid| pid.to_string()))),
        ("calls in flight", upstream.in_flight.to_string()),
        ("restarts", upstream.restarts.to_string()),
        ("next attempt", or_none(upstream.retry_at.map(|at| out.at(at)))),
        ("file", upstream.file.clone()),
    ])?;
    if let Some(document) = &document {
        out.block(&format!("\nConfiguration\n{document:#}\n"))?;
    }
    if !upstream.tools.is_empty() {
        out.block("\nTools\n")?;
        upstream.tools.iter().try_for_each(|tool| out.line(&format!("  {tool}")))?;
    }
    if !upstream.quarantined.is_empty() {
        out.block("\nQuarantined\n")?;
        upstream.quarantined.iter().try_for_each(|tool| out.line(&format!("  {}", quarantined(tool))))?;
    }
    upstream.warnings.iter().for_each(|text| warning(text));
    if let Some(remark) = &upstream.remark {
        out.note(&format!("It is not up yet: {remark}"));
    }
    for tool in &upstream.flagged {
        let (name, by) = (&tool.name, &tool.decided_by);
        warning(&format!("{name} is listed (approved by {by}) although it has {}", flags(&tool.flags)));
    }
    if !upstream.quarantined.is_empty() {
        out.note(&quarantine_note(&upstream.name, upstream.quarantined.len()));
    }
    let Some(error) = &upstream.last_error else { return Ok(()) };
    if !is_unhealthy(upstream.state) {
        stderr(out, last_lines(&error.stderr));
        print_error(out, &format!("Its last failure, {}", out.at(error.at)), &error.message);
        return Ok(());
    }
    stderr(out, &error.stderr);
    print_error(out, &out.at(error.at), &error.message);
    let name = shell::name(&one_line(&upstream.name));
    out.note(&match upstream.state {
        UpstreamState::Invalid => {
            format!("Correct its file; the hub reloads it automatically. Until then {name} is not available.")
        }
        UpstreamState::NeedsLogin => {
            format!("To log the hub in to it, run `plexus upstream login {name}`.")
        }
        UpstreamState::Down => {
            format!("The hub retries automatically; `plexus upstream restart {name}` retries now.")
        }
        _ => format!(
            "It crashed too often and is not restarted for 10 minutes, unless its file changes or you run \
             `plexus upstream restart {name}`. `plexus upstream logs {name}` shows more of its standard error."
        ),
    });
    Ok(())
}

pub(super) async fn test(
    out: &Output,
    hub: &Hub,
    (owner, allow): (&Owner<'_>, AllowArgs),
    name: &str,
    server: ServerArgs,
) -> anyhow::Result<()> {
    let server =
        if server.is_given() { Some(server.document(&format!("test {}", shell::name(name)))?) } else { None };
    let (path, params) = (["upstreams", name, "test"], TestUpstreamParams { server });
    let request = async || {
        let _progress = out.progress(&format!("Connecting to {name}"));
        hub.post(&path, &params, &[]).await
    };
    let answer = owner.send(allow, request).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
    }
    let result: UpstreamTest = answer.decode()?;
    let took = out.duration(i64::try_from(result.elapsed_ms).unwrap_or(i64::MAX));
    if !out.json() {
        result.warnings.iter().for_each(|text| warning(text));
        if result.success {
            let server = result.server.unwrap_or_else(|| one_line(name));
            let revision = result.revision.map_or_else(String::new, |revision| {
                format!(", MCP revision {}", revision_text(&revision, result.era))
            });
            let count = tools(result.tools.len());
            out.line(&format!("{server} has {count}, listed in {took}{revision}."))?;
            result.tools.iter().try_for_each(|tool| out.line(&format!("  {tool}")))?;
        } else {
            stderr(out, &result.stderr);
        }
    }
    if result.success {
        return Ok(());
    }
    let why = result.error.unwrap_or_else(|| "no reason is known".to_owned());
    Err(Failure::new(Exit::Failed, format!("{} does not work: {why}", one_line(name))).into())
}

/// The name of a tool in quarantine, with the reason and its flags.
pub(super) fn quarantined(tool: &QuarantinedTool) -> String {
    match tool.flags.is_empty() {
        true => format!("{} ({})", tool.name, tool.reason.as_str()),
        false => format!("{} ({}): {}", tool.name, tool.reason.as_str(), flags(&tool.flags)),
    }
}

/// The flags of a suspicious tool, on one line.
pub(crate) fn flags(flags: &[ToolFlag]) -> String {
    let flags = flags.iter().map(|flag| format!("{} in {}: {}", flag.kind.as_str(), flag.at, flag.found));
    flags.collect::<Vec<_>>().join("; ")
}

/// The note that names the command to review tools in quarantine.
pub(super) fn quarantine_note(server: &str, count: usize) -> String {
    let (subject, object) = if count == 1 { ("1 tool is", "it") } else { ("Tools are", "them") };
    let name = shell::name(&one_line(server));
    format!("{subject} in quarantine. To review and approve {object}, run `plexus upstream approve {name}`.")
}

fn revision_text(revision: &str, era: Option<UpstreamEra>) -> String {
    match era {
        Some(UpstreamEra::Session) => format!("{revision} (with sessions)"),
        Some(UpstreamEra::Stateless) => format!("{revision} (stateless)"),
        None => revision.to_owned(),
    }
}

/// Prints the last lines of a process's standard error, which may explain a failure.
pub(super) fn stderr<'l>(out: &Output, lines: impl IntoIterator<Item = &'l String>) {
    let mut lines = lines.into_iter().filter(|line| !line.trim().is_empty()).peekable();
    if lines.peek().is_some() {
        out.note("The last lines of its standard error:");
        lines.for_each(|line| out.note(&format!("  | {line}")));
    }
}

/// The last lines that are not blank.
fn last_lines(lines: &[String]) -> impl Iterator<Item = &String> {
    let lines: Vec<&String> = lines.iter().filter(|line| !line.trim().is_empty()).collect();
    let before = lines.len().saturating_sub(MAX_PAST_STDERR);
    lines.into_iter().skip(before)
}

/// Prints an error; several problems are printed on one line each.
fn print_error(out: &Output, heading: &str, message: &str) {
    match message.contains('\n') {
        false => out.note(&format!("{heading}: {message}")),
        true => {
            out.note(&format!("{heading}:"));
            message.lines().for_each(|line| out.note(&format!("  {line}")));
        }
    }
}
