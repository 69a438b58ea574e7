//! Tools of one machine, called through the hub until there is an answer.
//!
//! A link that is cut, a hub that restarts and a node that is away for a moment are waited out, as long as `patience` says
//! since the last answer. So only calls that may be made twice are made here, or those that have a key, under which the hub
//! makes them once. A first call that cannot be made is not repeated: whoever has misspelt something hears of it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use plexus_proto::ErrorCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::Hub;
use crate::failure::{Exit, Failure};

/// Between two attempts: the first, and at most.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(crate) struct Remote {
    hub: Hub,
    node: String,
    patience: Duration,
    /// When there was an answer last.
    answered: Mutex<Option<Instant>>,
    /// Told when calls do not get through, and when they do again.
    tell: Box<dyn Fn(&str) + Send + Sync>,
    away: AtomicBool,
}

/// What a call is made with: its own arguments and the machine.
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

/// The parts of an answer that matter here; the data are read without a detour.
#[derive(Deserialize)]
struct Answered<T> {
    success: bool,
    text: String,
    structured: Option<T>,
}

/// What the tool itself refused, as opposed to what kept it from running.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Remote {
    pub(crate) fn new(hub: Hub, node: &str, patience: Duration) -> Self {
        Self {
            hub,
            node: node.to_owned(),
            patience,
            answered: Mutex::new(None),
            tell: Box::new(|_| {}),
            away: AtomicBool::new(false),
        }
    }

    /// The same, which says so when nothing gets through for a while.
    pub(crate) fn telling(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { tell: Box::new(tell), ..self }
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Calls a tool there. What the tool refuses is an error with its words.
    pub(crate) async fn call<A: Serialize, T: DeserializeOwned>(
        &self,
        tool: &str,
        arguments: &A,
        key: Option<&str>,
    ) -> anyhow::Result<T> {
        self.try_call(tool, arguments, key).await?.map_err(|Refused(text)| {
            let (message, hint) = match text.split_once('\n') {
                Some((message, hint)) => (message.to_owned(), Some(hint.trim().to_owned())),
                None => (text, None),
            };
            let failure = Failure::new(Exit::Failed, format!("{}: {message}", self.node));
            Failure { hint, ..failure }.into()
        })
    }

    /// The same for who has something to do about a refusal.
    pub(crate) async fn try_call<A: Serialize, T: DeserializeOwned>(
        &self,
        tool: &str,
        arguments: &A,
        key: Option<&str>,
    ) -> anyhow::Result<Result<T, Refused>> {
        let body = Params { arguments: Arguments { node: &self.node, own: arguments } };
        let (mut pause, begun) = (PAUSE, Instant::now());
        loop {
            let failure = match self.once(tool, &body, key).await {
                Ok(answer) => {
                    *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                    if self.away.swap(false, Ordering::Relaxed) {
                        (self.tell)(&format!("{} is back", self.node));
                    }
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let last = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            let passes = |failure: &Failure| {
                // One without a key may be made twice, whatever became of the first.
                failure.retryable || (key.is_none() && failure.code == Some(ErrorCode::Interrupted))
            };
            let waits = failure.downcast_ref::<Failure>().is_some_and(passes)
                && last.is_some_and(|last| last.max(begun).elapsed() < self.patience);
            if !waits {
                return Err(failure);
            }
            if begun.elapsed() > LONGEST_PAUSE && !self.away.swap(true, Ordering::Relaxed) {
                (self.tell)(&format!("waiting for {}: {failure}", self.node));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn once<A: Serialize, T: DeserializeOwned>(
        &self,
        tool: &str,
        body: &Params<'_, A>,
        key: Option<&str>,
    ) -> anyhow::Result<Result<T, Refused>> {
        let answer = self.hub.post(&["tools", tool, "call"], body, &[("idempotency-key", key)]).await?;
        let answered: Answered<T> = answer.decode()?;
        match (answered.success, answered.structured) {
            (true, Some(structured)) => Ok(Ok(structured)),
            (true, None) => Err(Failure::new(Exit::Failed, format!("{tool} answered without data")))
                .context("the hub or the node is of another version"),
            (false, _) => Ok(Err(Refused(answered.text))),
        }
    }
}

/// A key for a call that is to run once.
pub(crate) fn fresh_key() -> String {
    plexus_proto::CallId::new().to_string()
}
