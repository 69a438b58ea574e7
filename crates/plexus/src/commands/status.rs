//! `plexus status`: an overview of the hub: its health, agents, nodes, queued writes, failed calls and problems.
//!
//! If no hub runs on the data folder, the command reports that and shows what is stored on this machine. It never
//! falls back to another hub.

mod page;
mod text;

use std::process::ExitCode;

use super::Invocation;
use crate::failure::Exit;
use page::StatusPage;

pub(crate) async fn run(invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let page = StatusPage::gather(invocation).await?;
    match out.json() {
        true => out.json_line(&page.to_json()?.to_string())?,
        false => text::print(&page, out)?,
    }
    if page.has_broken_audit_chain() {
        out.note(
            "The audit chain did not match its signed head when the hub started: run `plexus audit verify`.",
        );
    }
    match page.into_failure() {
        Some(failure) => Err(failure.into()),
        None => Ok(Exit::Ok.into()),
    }
}
