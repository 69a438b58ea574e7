//! The OAuth redirect URI: a local HTTP server that receives the authorization response and shows a page to the user.
//!
//! Any page in the browser can send requests to it. A request without the `state` of the login gets a 400 response
//! and has no effect.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use plexus_proto::api::FinishLoginParams;
use reqwest::Url;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// Path of the redirect URI.
pub(super) const PATH: &str = "/callback";
/// Time limit for the browser to load the page at the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
const PAGE: &str = "<!doctype html><meta charset=\"utf-8\"><title>Plexus</title>\
                    <body style=\"font:1.1em system-ui;margin:4em auto;max-width:32em\">\
                    <h1>Response received</h1><p>You can close this window. The terminal shows the result.</p>";

pub(super) struct Callback {
    server: Pin<Box<dyn Future<Output = ()> + Send>>,
    params: mpsc::Receiver<FinishLoginParams>,
    stop: watch::Sender<bool>,
}

#[derive(Clone)]
struct PendingLogin {
    state: Option<String>,
    /// Takes the first response; later ones are ignored.
    params: mpsc::Sender<FinishLoginParams>,
}

impl Callback {
    /// Creates the server, which handles requests only while one of the methods below is polled.
    pub(super) fn start(listener: TcpListener, state: Option<String>) -> Self {
        let (sender, params) = mpsc::channel(1);
        let (stop, mut stopped) = watch::channel(false);
        let login = PendingLogin { state, params: sender };
        let router = Router::new().route(PATH, get(respond)).with_state(login);
        let server = async move {
            let shutdown = async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            let _ = axum::serve(listener, router).with_graceful_shutdown(shutdown).await;
        };
        Self { server: Box::pin(server), params, stop }
    }

    /// The parameters of the authorization response.
    pub(super) async fn params(&mut self) -> FinishLoginParams {
        tokio::select! {
            () = &mut self.server => pending().await,
            params = self.params.recv() => match params {
                Some(params) => params,
                None => pending().await,
            },
        }
    }

    /// Runs a future while the server keeps handling requests.
    pub(super) async fn serve_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            done = &mut work => done,
            () = &mut self.server => work.await,
        }
    }

    pub(super) async fn shut_down(mut self) {
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut self.server).await;
    }
}

async fn respond(State(login): State<PendingLogin>, RawQuery(query): RawQuery) -> Response {
    let url = format!("http://127.0.0.1{PATH}?{}", query.unwrap_or_default());
    match parse(&url, login.state.as_deref()) {
        Some(params) => {
            let _ = login.params.try_send(params);
            Html(PAGE).into_response()
        }
        None => (StatusCode::BAD_REQUEST, "This is not the response to the pending login.\n").into_response(),
    }
}

/// The parameters in a URL that a browser was redirected to; none if it does not belong to the login.
pub(super) fn parse(url: &str, state: Option<&str>) -> Option<FinishLoginParams> {
    let url = Url::parse(url.trim()).ok()?;
    let mut params = FinishLoginParams::default();
    for (name, value) in url.query_pairs() {
        let field = match &*name {
            "code" => &mut params.code,
            "state" => &mut params.state,
            "iss" => &mut params.iss,
            "error" => &mut params.error,
            "error_description" => &mut params.error_description,
            _ => continue,
        };
        // An authorization response does not repeat a parameter.
        if field.replace(value.into_owned()).is_some() {
            return None;
        }
    }
    let is_response = params.code.is_some() || params.error.is_some();
    (is_response && params.state.as_deref() == state).then_some(params)
}

#[cfg(test)]
mod tests;
