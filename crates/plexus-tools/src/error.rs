//! Errors of calls, worded so that a model can act on them.

use plexus_proto::ErrorCode;
use plexus_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    pub code: ErrorCode,
    /// What happened, and to what.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    pub details: Value,
    /// The tool certainly had no effect.
    #[serde(default)]
    nothing_ran: bool,
    /// The hub is stopping while the call continues; the next start of the hub receives its result.
    #[serde(skip)]
    goes_on: bool,
    /// The original error of another server, for callers that use its protocol.
    #[serde(skip)]
    pub rpc: Option<Box<RpcCause>>,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcCause {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl CallError {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            details: Value::Null,
            nothing_ran: false,
            goes_on: false,
            rpc: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// Adds the protocol error that caused this one.
    #[must_use]
    pub fn from_rpc(mut self, code: i64, message: impl Into<String>, data: Option<Value>) -> Self {
        self.rpc = Some(Box::new(RpcCause { code, message: message.into(), data }));
        self
    }

    /// Marks that the call did not reach its tool, so it is safe to repeat.
    #[must_use]
    pub fn before_it_ran(mut self) -> Self {
        self.nothing_ran = true;
        self
    }

    /// Marks that the call continues on its node while the hub stops, so its end must not be recorded now.
    #[must_use]
    pub fn while_still_running(mut self) -> Self {
        self.goes_on = true;
        self
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Whether the tool certainly had no effect.
    pub(crate) fn nothing_ran(&self) -> bool {
        self.nothing_ran || matches!(self.code, ErrorCode::Overloaded | ErrorCode::UnknownTool)
    }

    /// Adapts this error, of recording a call, to the call's result: an effect outside the hub has already happened.
    pub(crate) fn after<T>(self, result: &Result<T, Self>) -> Self {
        match result {
            Err(ended) if ended.nothing_ran() => self,
            _ => Self { code: ErrorCode::Internal, ..self }.hint(
                "The tool has run, but its result could not be recorded. Check first, and call again only if it has \
                 not done its work.",
            ),
        }
    }

    /// Message and hint as one text.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\n{hint}", self.message),
            None => self.message.clone(),
        }
    }
}

impl From<StoreError> for CallError {
    /// The cause is logged; a caller can only retry.
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, source = ?std::error::Error::source(&error), "store failed during a call");
        let code = if error.is_retryable() { ErrorCode::Unavailable } else { ErrorCode::Internal };
        let hint = match error {
            StoreError::Uncertain { .. } => {
                "The write may have been committed. Call again with the same idempotency key to get its result; \
                 without a key, look first."
            }
            _ => "Nothing was changed. Try again.",
        };
        Self::new(code, "the hub could not reach its database").hint(hint)
    }
}
