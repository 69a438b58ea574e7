//! `plexus upstream show` and `plexus upstream test`: a server from close by.

use plexus_proto::api::{
    QuarantinedTool, TestUpstreamParams, ToolFlag, UpstreamDetail, UpstreamEra, UpstreamState, UpstreamTest,
};

use super::add::tools;
use super::allow::{AllowArgs, Owner};
use super::document::ServerArgs;
use super::is_unwell;
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line, warning};
use crate::shell;

/// Lines of standard error of a failure that is over.
const LAST_WORDS: usize = 3;

pub(super) async fn run(out: &Output, hub: &Hub, name: &str) -> anyhow::Result<()> {
    let answer = hub.get(&["upstreams", name], &[]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let UpstreamDetail { upstream, document } = answer.decode()?;
    let or = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    out.fields(&[
        ("name", upstream.name.clone()),
        ("state", upstream.state.as_str().to_owned()),
        ("since", out.at(upstream.since)),
        ("transport", or(upstream.transport.map(|transport| transport.as_str().to_owned()))),
        ("server", or(upstream.server)),
        ("revision", or(upstream.revision.map(|revision| spoken(&revision, upstream.era)))),
        ("process", or(upstream.pid.map(|pid| pid.to_string()))),
        ("calls in flight", upstream.in_flight.to_string()),
        ("restarts", upstream.restarts.to_string()),
        ("next attempt", or(upstream.retry_at.map(|at| out.at(at)))),
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
        upstream.quarantined.iter().try_for_each(|tool| out.line(&format!("  {}", held(tool))))?;
    }
    for strange in &upstream.warnings {
        warning(strange);
    }
    if let Some(remark) = &upstream.remark {
        out.note(&format!("It is not up yet: {remark}"));
    }
    for tool in &upstream.flagged {
        let whose = format!("approved by {}", tool.decided_by);
        warning(&format!("{} is listed ({whose}) although it has {}", tool.name, flags(&tool.flags)));
    }
    if !upstream.quarantined.is_empty() {
        out.note(&waiting(&upstream.name, upstream.quarantined.len()));
    }
    let Some(error) = &upstream.last_error else { return Ok(()) };
    if !is_unwell(upstream.state) {
        stderr(out, last_words(&error.stderr));
        told(out, &format!("Its last failure, {}", out.at(error.at)), &error.message);
        return Ok(());
    }
    stderr(out, &error.stderr);
    told(out, &out.at(error.at), &error.message);
    let name = shell::name(&one_line(&upstream.name));
    out.note(&match upstream.state {
        UpstreamState::Invalid => {
            format!("Put its file right: it is read again by itself. Until then {name} is off.")
        }
        UpstreamState::NeedsLogin => {
            format!("`plexus upstream login {name}` gives the hub access to it.")
        }
        UpstreamState::Down => {
            format!("The hub tries again by itself; `plexus upstream restart {name}` does it now.")
        }
        _ => format!(
            "It crashed too often and is left alone for 10 minutes, unless its file changes or you run \
             `plexus upstream restart {name}`. `plexus upstream logs {name}` has more of what it said."
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
    let answer = owner.allowing(allow, request).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
    }
    let found: UpstreamTest = answer.decode()?;
    let took = out.duration(i64::try_from(found.elapsed_ms).unwrap_or(i64::MAX));
    if !out.json() {
        for strange in &found.warnings {
            warning(strange);
        }
        if found.success {
            let who = found.server.unwrap_or_else(|| one_line(name));
            let revision =
                found.revision.map_or_else(String::new, |one| format!(" speaks {}", spoken(&one, found.era)));
            out.line(&format!("{who}{revision} and has {}, found in {took}.", tools(found.tools.len())))?;
            found.tools.iter().try_for_each(|tool| out.line(&format!("  {tool}")))?;
        } else {
            stderr(out, &found.stderr);
        }
    }
    if found.success {
        return Ok(());
    }
    let why = found.error.unwrap_or_else(|| "it does not say why".to_owned());
    Err(Failure::new(Exit::Failed, format!("{} does not work: {why}", one_line(name))).into())
}

/// A tool that is not listed, and why.
pub(crate) fn held(tool: &QuarantinedTool) -> String {
    match tool.flags.is_empty() {
        true => format!("{} ({})", tool.name, tool.reason.as_str()),
        false => format!("{} ({}): {}", tool.name, tool.reason.as_str(), flags(&tool.flags)),
    }
}

/// What is strange about a tool.
pub(crate) fn flags(flags: &[ToolFlag]) -> String {
    let told = flags.iter().map(|flag| format!("{} in {}: {}", flag.kind.as_str(), flag.at, flag.found));
    told.collect::<Vec<_>>().join("; ")
}

/// What to do about tools that are not listed.
pub(super) fn waiting(server: &str, count: usize) -> String {
    let (what, them) = if count == 1 { ("1 tool is", "it") } else { ("Tools are", "them") };
    let name = shell::name(&one_line(server));
    format!(
        "{what} held back. `plexus upstream approve {name}` shows {them}, and approves {them} if you say so."
    )
}

fn spoken(revision: &str, era: Option<UpstreamEra>) -> String {
    match era {
        Some(UpstreamEra::Session) => format!("{revision} (with sessions)"),
        Some(UpstreamEra::Stateless) => format!("{revision} (stateless)"),
        None => revision.to_owned(),
    }
}

/// What the process said last, for a person to find out why it failed.
pub(super) fn stderr<'l>(out: &Output, lines: impl IntoIterator<Item = &'l String>) {
    let mut lines = lines.into_iter().filter(|line| !line.trim().is_empty()).peekable();
    if lines.peek().is_some() {
        out.note("The end of what it wrote to its standard error:");
        lines.for_each(|line| out.note(&format!("  | {line}")));
    }
}

/// The last lines that say something.
fn last_words(lines: &[String]) -> impl Iterator<Item = &String> {
    let said: Vec<&String> = lines.iter().filter(|line| !line.trim().is_empty()).collect();
    let before = said.len().saturating_sub(LAST_WORDS);
    said.into_iter().skip(before)
}

/// What went wrong, a line for each of several things.
fn told(out: &Output, what: &str, message: &str) {
    match message.contains('\n') {
        false => out.note(&format!("{what}: {message}")),
        true => {
            out.note(&format!("{what}:"));
            message.lines().for_each(|line| out.note(&format!("  {line}")));
        }
    }
}
