//! `plexus status`: the home page: how the hub is, who uses it, what waits and what failed.
//!
//! Where no hub runs on the data folder, it says so of that folder and shows what is known without one. No other hub is
//! asked instead.

mod page;
mod shown;

use std::process::ExitCode;

use super::Invocation;
use crate::failure::Exit;
use page::Page;

pub(crate) async fn run(invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let page = Page::gather(invocation).await?;
    match out.json() {
        true => out.json_line(&page.to_json()?.to_string())?,
        false => shown::print(&page, out)?,
    }
    if page.is_broken() {
        out.note("The audit chain did not match its signed head: see `plexus audit verify`.");
    }
    match page.into_failure() {
        Some(failure) => Err(failure.into()),
        None => Ok(Exit::Ok.into()),
    }
}
