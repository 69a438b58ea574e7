//! `plexus upstream login` and `logout`: a person gives the hub access to a server, in a browser.
//!
//! The browser comes back to an address on this machine. Where it runs on another one, such as over SSH, that address
//! cannot be reached from there, and the person pastes it here instead.

mod callback;

use std::io::{self, BufRead as _, IsTerminal as _};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use plexus_proto::api::{BeginLoginParams, FinishLoginParams, UpstreamDetail, UpstreamLogin, UpstreamLogout};
use reqwest::Url;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use self::callback::{Callback, PATH};
use super::add::{self, WaitArgs};
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line};
use crate::shell;

#[derive(Debug, Args)]
pub(super) struct LoginArgs {
    /// Name of the server
    pub(super) name: String,
    /// Only print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

pub(super) async fn login(out: &Output, hub: &Hub, args: LoginArgs) -> anyhow::Result<()> {
    let LoginArgs { name, no_browser, wait } = args;
    let server: UpstreamDetail = hub.get(&["upstreams", &name], &[]).await?.decode()?;
    let port = server.document.as_ref().and_then(|document| document["auth"]["redirect_port"].as_u64());
    let port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on port {port} for the browser: {error}"))
            .hint("free the port, or write another one as `auth.redirect_port` in the server's file")
    })?;
    let port = listener.local_addr().context("cannot listen for the browser")?.port();
    let params = BeginLoginParams { redirect_uri: format!("http://127.0.0.1:{port}{PATH}") };
    let progress = out.progress(&format!("Asking who gives access to {name}"));
    let answer = hub.post(&["upstreams", &name, "login"], &params, &[]).await?;
    drop(progress);
    let begun: UpstreamLogin = answer.decode()?;
    tell(out, &name, &begun, answer.raw().get(), no_browser)?;
    let answer = wait_for(out, listener, &begun, no_browser).await?;
    let began = Instant::now();
    let Brought { params, mut callback } = answer;
    let finished = callback.serving(hub.post(&["upstreams", &name, "login", &begun.id], &params, &[])).await;
    callback.end().await;
    finished?;
    if !out.json() {
        out.note(&format!("Logged in to {}.", one_line(&name)));
    }
    add::report(out, hub, &name, &wait, began).await
}

/// Says what to open, and opens it.
fn tell(out: &Output, name: &str, begun: &UpstreamLogin, raw: &str, no_browser: bool) -> anyhow::Result<()> {
    if out.json() {
        out.json_line(raw)?;
    } else {
        // Whom the server names is who gets to know the person: it should be known to them.
        let (name, issuer) = (one_line(name), one_line(&begun.issuer));
        out.note(&format!("To give the hub access to {name}, open this and log in at {issuer}:"));
        out.line(&begun.url)?;
        out.note("If the browser is on another machine, paste here the address that it ends up at.");
    }
    if !no_browser && open::that_detached(&begun.url).is_err() && !out.json() {
        out.note("There is no browser here that could be opened: open the address yourself.");
    }
    Ok(())
}

/// What the browser brought back.
struct Brought {
    params: FinishLoginParams,
    callback: Callback,
}

async fn wait_for(
    out: &Output,
    listener: TcpListener,
    begun: &UpstreamLogin,
    no_browser: bool,
) -> anyhow::Result<Brought> {
    let state = Url::parse(&begun.url).ok().and_then(|url| {
        url.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
    });
    let mut callback = Callback::start(listener, state.clone());
    let mut pasted = pasted(no_browser || io::stdin().is_terminal());
    let left = begun.expires_at.as_millisecond().saturating_sub(out.now().as_millisecond());
    let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
    let waited = tokio::time::timeout(left, async {
        loop {
            tokio::select! {
                brought = callback.brought() => return brought,
                Some(line) = pasted.recv() => match callback::read(&line, state.as_deref()) {
                    Some(params) => return params,
                    None => out.note("That is not the address that the browser ends up at; it has `code=` in it."),
                },
            }
        }
    });
    let params = waited.await.map_err(|_| {
        let command = "run the command again, and log in within 10 minutes";
        Failure::new(Exit::Failed, "nobody has logged in").hint(command)
    })?;
    Ok(Brought { params, callback })
}

/// Lines of standard input. A thread reads them, which ends with the program and is not waited for.
fn pasted(wanted: bool) -> mpsc::Receiver<String> {
    let (lines, pasted) = mpsc::channel(4);
    if wanted {
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if lines.blocking_send(line).is_err() {
                    return;
                }
            }
        });
    }
    pasted
}

pub(super) async fn logout(out: &Output, hub: &Hub, name: &str) -> anyhow::Result<()> {
    let answer = hub.post(&["upstreams", name, "logout"], &(), &[]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let logout: UpstreamLogout = answer.decode()?;
    let shown = shell::name(&one_line(&logout.name));
    if !logout.forgotten {
        return out.line(&format!("The hub was not logged in to {shown}."));
    }
    let ended = if logout.revoked { ", and its authorization server was told" } else { "" };
    out.line(&format!("Logged out of {shown}{ended}. `plexus upstream login {shown}` logs in again."))?;
    if let Some(remark) = &logout.remark {
        out.note(&format!("Not told: {remark}."));
    }
    Ok(())
}
