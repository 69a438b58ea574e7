//! `plexus upstream login` and `logout`: a person gives the hub access to a server, in a browser.
//!
//! The browser comes back to an address on this machine. Where it runs on another one, such as over SSH, that address
//! cannot be reached from there, and the person pastes it here instead.

mod callback;

use std::io::{self, IsTerminal as _};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use plexus_proto::api::{
    BeginLoginParams, FinishLoginParams, Upstream, UpstreamDetail, UpstreamLogin, UpstreamLogout,
    UpstreamState,
};
use reqwest::Url;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use self::callback::{Callback, PATH};
use super::add::{self, WaitArgs};
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::{self, Output, one_line};
use crate::shell;

/// The error of the hub if it finds no authorization server.
const NO_AUTHORITY: &str = "should be the authorization server but publishes no metadata";

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
    let found = hub.get(&["upstreams", &name], &[]).await?;
    let server: UpstreamDetail = found.decode()?;
    let port = server.document.as_ref().and_then(|document| document["auth"]["redirect_port"].as_u64());
    let port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on port {port} for the browser: {error}"))
            .hint("free the port, or write another one as `auth.redirect_port` in the server's file")
    })?;
    let port = listener.local_addr().context("cannot listen for the browser")?.port();
    let params = BeginLoginParams { redirect_uri: format!("http://127.0.0.1:{port}{PATH}") };
    let progress = out.progress(&format!("Asking who gives access to {name}"));
    let answer = hub.post(&["upstreams", &name, "login"], &params, &[]).await;
    drop(progress);
    let answer = match answer.map_err(|error| without_authority(error, &server.upstream)) {
        Err(NotBegun::Needless) if out.json() => return out.json_line(found.raw().get()),
        Err(NotBegun::Needless) => {
            return out.line(&format!("{} is up and asks for no login.", shell::name(&one_line(&name))));
        }
        Err(NotBegun::Failed(error)) => return Err(error),
        Ok(answer) => answer,
    };
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

/// Why there is nothing to open.
enum NotBegun {
    /// The server is up without it.
    Needless,
    Failed(anyhow::Error),
}

/// Nobody who gives access was found, which means one thing of a server that is up and another of one that is not.
fn without_authority(error: anyhow::Error, server: &Upstream) -> NotBegun {
    let failure = match error.downcast::<Failure>() {
        Ok(failure) if failure.message.contains(NO_AUTHORITY) => failure,
        Ok(failure) => return NotBegun::Failed(failure.into()),
        Err(error) => return NotBegun::Failed(error),
    };
    if matches!(server.state, UpstreamState::Ready | UpstreamState::Idle) {
        return NotBegun::Needless;
    }
    let hint = format!(
        "Ask whoever runs it what it wants. A key goes into {} as `headers`, such as {{\"Authorization\": \"Bearer \
         ${{env:NAME}}\"}}; an authorization server as `auth.authorization_server`.",
        server.file
    );
    NotBegun::Failed(failure.hint(hint).into())
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
    let mut pasted = match no_browser || io::stdin().is_terminal() {
        true => output::stdin_lines(),
        false => mpsc::channel(1).1,
    };
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
