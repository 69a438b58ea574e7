//! Calls the tools of one machine through the hub, with retries.
//!
//! If the connection breaks, the hub restarts or the node is away, a call is retried until `retry_timeout` has passed
//! since the last response. So every call here must be idempotent or have an idempotency key, with which the hub runs
//! it once. Calls are not retried before the first response: a misspelled name is reported immediately.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use plexus_proto::ErrorCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::Hub;
use crate::failure::{Exit, Failure};

/// Delay before the first retry. It doubles with each retry.
const MIN_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(2);

/// A machine whose tools are called.
pub(crate) struct Remote {
    hub: Hub,
    node: String,
    retry_timeout: Duration,
    last_response: Mutex<Option<Instant>>,
    /// Called if calls start to fail, and if they succeed again.
    notice: Box<dyn Fn(&str) + Send + Sync>,
    is_away: AtomicBool,
}

/// The body of a call.
#[derive(Serialize)]
struct Params<'a, A> {
    arguments: Arguments<'a, A>,
}

#[derive(Serialize)]
struct Arguments<'a, A> {
    node: &'a str,
    #[serde(flatten)]
    own: &'a A,
}

/// The relevant parts of a response. Deserializes the data directly into `T`.
#[derive(Deserialize)]
struct CallResponse<T> {
    success: bool,
    text: String,
    structured: Option<T>,
}

/// The error text of a tool that ran and refused the call.
#[derive(Debug)]
pub(crate) struct ToolRefusal(pub(crate) String);

impl std::fmt::Display for ToolRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ToolRefusal {}

impl Remote {
    pub(crate) fn new(hub: Hub, node: &str, retry_timeout: Duration) -> Self {
        Self {
            hub,
            node: node.to_owned(),
            retry_timeout,
            last_response: Mutex::new(None),
            notice: Box::new(|_| {}),
            is_away: AtomicBool::new(false),
        }
    }

    /// Sets a function that is called if the machine cannot be reached for a while.
    pub(crate) fn on_notice(self, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { notice: Box::new(notice), ..self }
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Calls a tool. A refusal becomes an error with the tool's text.
    pub(crate) async fn call<A: Serialize, T: DeserializeOwned>(
        &self,
        tool: &str,
        arguments: &A,
        key: Option<&str>,
    ) -> anyhow::Result<T> {
        self.try_call(tool, arguments, key).await?.map_err(|ToolRefusal(text)| {
            let (message, hint) = match text.split_once('\n') {
                Some((message, hint)) => (message.to_owned(), Some(hint.trim().to_owned())),
                None => (text, None),
            };
            let failure = Failure::new(Exit::Failed, format!("{}: {message}", self.node));
            Failure { hint, ..failure }.into()
        })
    }

    /// Like [`Self::call`], for callers that handle a refusal.
    pub(crate) async fn try_call<A: Serialize, T: DeserializeOwned>(
        &self,
        tool: &str,
        arguments: &A,
        key: Option<&str>,
    ) -> anyhow::Result<Result<T, ToolRefusal>> {
        let body = Params { arguments: Arguments { node: &self.node, own: arguments } };
        let (mut delay, started) = (MIN_DELAY, Instant::now());
        loop {
            let failure = match self.call_once(tool, &body, key).await {
                Ok(answer) => {
                    *self.last_response.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                    if self.is_away.swap(false, Ordering::Relaxed) {
                        (self.notice)(&format!("{} is back", self.node));
                    }
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let last = *self.last_response.lock().unwrap_or_else(PoisonError::into_inner);
            let is_transient = |failure: &Failure| {
                // A call without a key is idempotent, so it does not matter whether the first one ran.
                failure.retryable || (key.is_none() && failure.code == Some(ErrorCode::Interrupted))
            };
            let can_retry = failure.downcast_ref::<Failure>().is_some_and(is_transient)
                && last.is_some_and(|last| last.max(started).elapsed() < self.retry_timeout);
            if !can_retry {
                return Err(failure);
            }
            if started.elapsed() > MAX_DELAY && !self.is_away.swap(true, Ordering::Relaxed) {
                (self.notice)(&format!("waiting for {}: {failure}", self.node));
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
    }

    async fn call_once<A: Serialize, T: DeserializeOwned>(
        &self,
        tool: &str,
        body: &Params<'_, A>,
        key: Option<&str>,
    ) -> anyhow::Result<Result<T, ToolRefusal>> {
        let answer = self.hub.post(&["tools", tool, "call"], body, &[("idempotency-key", key)]).await?;
        let response: CallResponse<T> = answer.decode()?;
        match (response.success, response.structured) {
            (true, Some(structured)) => Ok(Ok(structured)),
            (true, None) => Err(Failure::new(Exit::Failed, format!("{tool} returned no data")))
                .context("the hub or the node has another version"),
            (false, _) => Ok(Err(ToolRefusal(response.text))),
        }
    }
}

/// Generates an idempotency key.
pub(crate) fn new_idempotency_key() -> String {
    plexus_proto::CallId::new().to_string()
}
