//! `plexus upstream login` and `logout`: the user logs the hub in to a server, in a browser.
//!
//! The browser is redirected to a URL on this machine. If it runs on another machine, such as over SSH, it cannot
//! load that URL, and the user pastes it into the terminal instead.

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

/// Part of the hub's error if it finds no authorization server.
const NO_AUTHORIZATION_SERVER: &str = "should be the authorization server but publishes no metadata";

#[derive(Debug, Args)]
pub(super) struct LoginArgs {
    /// Name of the server
    pub(super) name: String,
    /// Print the URL without opening a browser
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
            .hint("free the port, or set another one as `auth.redirect_port` in the server's file")
    })?;
    let port = listener.local_addr().context("cannot listen for the browser")?.port();
    let params = BeginLoginParams { redirect_uri: format!("http://127.0.0.1:{port}{PATH}") };
    let progress = out.progress(&format!("Looking up the authorization server of {name}"));
    let answer = hub.post(&["upstreams", &name, "login"], &params, &[]).await;
    drop(progress);
    let answer = match answer.map_err(|error| classify(error, &server.upstream)) {
        Err(BeginError::NotRequired) if out.json() => return out.json_line(found.raw().get()),
        Err(BeginError::NotRequired) => {
            return out.line(&format!("{} is up and needs no login.", shell::name(&one_line(&name))));
        }
        Err(BeginError::Failed(error)) => return Err(error),
        Ok(answer) => answer,
    };
    let pending: UpstreamLogin = answer.decode()?;
    open_browser(out, &name, &pending, answer.raw().get(), no_browser)?;
    let (params, mut callback) = wait_for_redirect(out, listener, &pending, no_browser).await?;
    let started = Instant::now();
    let path = ["upstreams", &name, "login", &pending.id];
    let finished = callback.serve_during(hub.post(&path, &params, &[])).await;
    callback.shut_down().await;
    finished?;
    if !out.json() {
        out.note(&format!("Logged in to {}.", one_line(&name)));
    }
    add::report(out, hub, &name, &wait, started).await
}

/// Why the login did not begin.
enum BeginError {
    /// The server is up without a login.
    NotRequired,
    Failed(anyhow::Error),
}

/// Without an authorization server, a server that is up needs no login. For any other server, adds a hint how to
/// authenticate.
fn classify(error: anyhow::Error, server: &Upstream) -> BeginError {
    let failure = match error.downcast::<Failure>() {
        Ok(failure) if failure.message.contains(NO_AUTHORIZATION_SERVER) => failure,
        Ok(failure) => return BeginError::Failed(failure.into()),
        Err(error) => return BeginError::Failed(error),
    };
    if matches!(server.state, UpstreamState::Ready | UpstreamState::Idle) {
        return BeginError::NotRequired;
    }
    let hint = format!(
        "Ask the operator of the server how to authenticate. In {}, put an API key into `headers`, such as \
         {{\"Authorization\": \"Bearer ${{env:NAME}}\"}}, or the authorization server into `auth.authorization_server`.",
        server.file
    );
    BeginError::Failed(failure.hint(hint).into())
}

/// Prints the URL, and opens it in a browser.
fn open_browser(
    out: &Output,
    name: &str,
    pending: &UpstreamLogin,
    raw: &str,
    no_browser: bool,
) -> anyhow::Result<()> {
    if out.json() {
        out.json_line(raw)?;
    } else {
        // The server chose the authorization server; the user should recognize it before logging in there.
        let (name, issuer) = (one_line(name), one_line(&pending.issuer));
        out.note(&format!("To give the hub access to {name}, open this URL and log in at {issuer}:"));
        out.line(&pending.url)?;
        out.note("If the browser is on another machine, paste the URL that it is redirected to here.");
    }
    if !no_browser && open::that_detached(&pending.url).is_err() && !out.json() {
        out.note("Cannot open a browser; open the URL yourself.");
    }
    Ok(())
}

/// Waits until the browser is redirected to the callback, or the user pastes the URL.
async fn wait_for_redirect(
    out: &Output,
    listener: TcpListener,
    pending: &UpstreamLogin,
    no_browser: bool,
) -> anyhow::Result<(FinishLoginParams, Callback)> {
    let state = Url::parse(&pending.url).ok().and_then(|url| {
        url.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
    });
    let mut callback = Callback::start(listener, state.clone());
    let mut pasted = match no_browser || io::stdin().is_terminal() {
        true => output::stdin_lines(),
        false => mpsc::channel(1).1,
    };
    let left = pending.expires_at.as_millisecond().saturating_sub(out.now().as_millisecond());
    let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
    let redirected = tokio::time::timeout(left, async {
        loop {
            tokio::select! {
                params = callback.params() => return params,
                Some(line) = pasted.recv() => match callback::parse(&line, state.as_deref()) {
                    Some(params) => return params,
                    None => out.note("This is not the URL that the browser is redirected to; that URL contains `code=`."),
                },
            }
        }
    });
    let params = redirected.await.map_err(|_| {
        let hint = "run the command again, and log in within 10 minutes";
        Failure::new(Exit::Failed, "the login timed out").hint(hint)
    })?;
    Ok((params, callback))
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
    let revoked = if logout.revoked { " and revoked its tokens" } else { "" };
    out.line(&format!("Logged out of {shown}{revoked}. `plexus upstream login {shown}` logs in again."))?;
    if let Some(remark) = &logout.remark {
        out.note(&format!("Not revoked: {remark}."));
    }
    Ok(())
}
