//! The address that the browser comes back to: a page for the person, and what it brought for the command.
//!
//! Every page of the browser can call this address. What does not know the `state` of the login is answered like any
//! other wrong address, and changes nothing.

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

/// The path of the address.
pub(super) const PATH: &str = "/callback";
/// For the browser to take the page when everything is done.
const GOODBYE: Duration = Duration::from_secs(1);
const PAGE: &str = "<!doctype html><meta charset=\"utf-8\"><title>Plexus</title>\
                    <body style=\"font:1.1em system-ui;margin:4em auto;max-width:32em\">\
                    <h1>Done here</h1><p>You can close this window. The terminal says what came of it.</p>";

pub(super) struct Callback {
    serving: Pin<Box<dyn Future<Output = ()> + Send>>,
    brought: mpsc::Receiver<FinishLoginParams>,
    end: watch::Sender<bool>,
}

#[derive(Clone)]
struct Waiting {
    state: Option<String>,
    /// The first answer is the one; whatever comes after it is too late.
    brought: mpsc::Sender<FinishLoginParams>,
}

impl Callback {
    /// Nothing is served before it is waited for.
    pub(super) fn start(listener: TcpListener, state: Option<String>) -> Self {
        let (sender, brought) = mpsc::channel(1);
        let (end, mut ended) = watch::channel(false);
        let router = Router::new().route(PATH, get(answer)).with_state(Waiting { state, brought: sender });
        let serving = async move {
            let stop = async move {
                let _ = ended.wait_for(|ended| *ended).await;
            };
            // It ends when it is told to, or never.
            let _ = axum::serve(listener, router).with_graceful_shutdown(stop).await;
        };
        Self { serving: Box::pin(serving), brought, end }
    }

    /// What the browser brings.
    pub(super) async fn brought(&mut self) -> FinishLoginParams {
        tokio::select! {
            () = &mut self.serving => pending().await,
            brought = self.brought.recv() => match brought {
                Some(brought) => brought,
                None => pending().await,
            },
        }
    }

    /// Does something while the browser is still answered.
    pub(super) async fn serving<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            done = &mut work => done,
            () = &mut self.serving => work.await,
        }
    }

    pub(super) async fn end(mut self) {
        let _ = self.end.send(true);
        let _ = tokio::time::timeout(GOODBYE, &mut self.serving).await;
    }
}

async fn answer(State(waiting): State<Waiting>, RawQuery(query): RawQuery) -> Response {
    let address = format!("http://127.0.0.1{PATH}?{}", query.unwrap_or_default());
    match read(&address, waiting.state.as_deref()) {
        Some(params) => {
            let _ = waiting.brought.try_send(params);
            Html(PAGE).into_response()
        }
        None => (StatusCode::BAD_REQUEST, "This is not the answer to the login that is waited for.\n")
            .into_response(),
    }
}

/// What stands in the address that a browser ended up at; none where it is another one.
pub(super) fn read(address: &str, state: Option<&str>) -> Option<FinishLoginParams> {
    let url = Url::parse(address.trim()).ok()?;
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
        // A parameter that is there twice is no answer of an authorization server.
        if field.replace(value.into_owned()).is_some() {
            return None;
        }
    }
    let answered = params.code.is_some() || params.error.is_some();
    (answered && params.state.as_deref() == state).then_some(params)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn only_the_answer_to_this_login_is_read() {
        let of = |query: &str| read(&format!("http://127.0.0.1:1/callback?{query}\n"), Some("s"));
        let answer = of("code=c%2F1&state=s&iss=https%3A%2F%2Fa.example").unwrap();
        assert_eq!(answer.code.as_deref(), Some("c/1"));
        assert_eq!(answer.iss.as_deref(), Some("https://a.example"));
        assert_eq!(of("error=access_denied&state=s").unwrap().error.as_deref(), Some("access_denied"));
        for other in ["code=c&state=another", "code=c", "state=s", "", "code=a&code=b&state=s"] {
            assert!(of(other).is_none(), "{other}");
        }
        assert!(read("code=c&state=s", Some("s")).is_none());
    }
}
