//! Why a call did not give a result, in words a model can act on.

use plexus_proto::ErrorCode;
use plexus_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    pub code: ErrorCode,
    /// What happened, to what.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    pub details: Value,
    /// It is certain that the tool did nothing.
    #[serde(default)]
    nothing_ran: bool,
    /// Only who answers is going: the call itself goes on, and how it ends is heard by the next start of the hub.
    #[serde(skip)]
    goes_on: bool,
    /// What another server itself said, for those who speak its protocol.
    #[serde(skip)]
    pub rpc: Option<Box<RpcCause>>,
}

/// An error of JSON-RPC.
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

    /// With the error of the protocol that it comes from.
    #[must_use]
    pub fn from_rpc(mut self, code: i64, message: impl Into<String>, data: Option<Value>) -> Self {
        self.rpc = Some(Box::new(RpcCause { code, message: message.into(), data }));
        self
    }

    /// The call did not get as far as its tool: it can be made again without a thought.
    #[must_use]
    pub fn before_it_ran(mut self) -> Self {
        self.nothing_ran = true;
        self
    }

    /// Of a call to a machine: the hub stops, and the call does not. Its end is not to be recorded now.
    #[must_use]
    pub fn while_it_goes_on(mut self) -> Self {
        self.goes_on = true;
        self
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Whether it is certain that the tool did nothing.
    pub(crate) fn nothing_ran(&self) -> bool {
        self.nothing_ran || matches!(self.code, ErrorCode::Overloaded | ErrorCode::UnknownTool)
    }

    /// This error as that of the record of a call whose result was this: what was done elsewhere stays done.
    pub(crate) fn after<T>(self, result: &Result<T, Self>) -> Self {
        match result {
            Err(ended) if ended.nothing_ran() => self,
            _ => Self { code: ErrorCode::Internal, ..self }.hint(
                "The tool has run, and how it ended could not be recorded. Look first, and call again only if it has \
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
    /// The cause goes to the log; a caller can do nothing with it but try again.
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, source = ?std::error::Error::source(&error), "store failed during a call");
        let code = if error.is_retryable() { ErrorCode::Unavailable } else { ErrorCode::Internal };
        let hint = match error {
            StoreError::Uncertain { .. } => {
                "It may have been done all the same. Call again with the same idempotency key to get its result; \
                 without a key, look first."
            }
            _ => "Nothing was changed. Try again.",
        };
        Self::new(code, "the hub could not reach its database").hint(hint)
    }
}
