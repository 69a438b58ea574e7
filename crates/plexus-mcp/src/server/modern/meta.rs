//! The `_meta` of requests of this revision, and its keys.

use http::StatusCode;
use plexus_tools::{Capabilities, LogLevel};
use serde_json::{Map, Value};

use crate::server::call;
use crate::server::rpc::{self, INVALID_PARAMS, Request, RpcError};

pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The revision in the body.
pub(crate) fn version(params: &rpc::Params<'_>) -> Option<String> {
    // A cheap test first: most session-era requests have no version in `_meta`.
    let raw = params.meta.filter(|raw| raw.get().contains(META_VERSION))?;
    let meta: Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
    meta.get(META_VERSION)?.as_str().map(str::to_owned)
}

/// The members of `_meta`; checks that the required ones are present.
pub(super) fn required(request: &Request<'_>) -> Result<Map<String, Value>, RpcError> {
    let missing = |problem: &str| {
        RpcError::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, format!("params._meta {problem}"))
    };
    if request.params.meta.is_none() {
        return Err(missing("is required"));
    }
    let meta = call::meta(&request.params)
        .map_err(|error| RpcError::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, error.message))?;
    if !meta.get(META_VERSION).is_some_and(Value::is_string) {
        return Err(missing(&format!("must have {META_VERSION:?}, a string")));
    }
    if !meta.get(META_CAPABILITIES).is_some_and(Value::is_object) {
        return Err(missing(&format!("must have {META_CAPABILITIES:?}, an object")));
    }
    Ok(meta)
}

/// The validated `_meta` of a request.
pub(super) struct RequestMeta {
    pub(super) members: Map<String, Value>,
    /// The client's capabilities, valid for this request only.
    pub(super) capabilities: Capabilities,
    /// The lowest level of the log lines that the client wants to receive.
    pub(super) log: Option<LogLevel>,
}

impl RequestMeta {
    pub(super) fn read(members: Map<String, Value>) -> Result<Self, RpcError> {
        let log = match members.get(META_LOG_LEVEL) {
            None => None,
            Some(level) => Some(level.as_str().and_then(LogLevel::parse).ok_or_else(|| {
                let levels = LogLevel::ALL.map(LogLevel::as_str).join(", ");
                RpcError::invalid_params(format!("_meta[{META_LOG_LEVEL:?}] must be one of {levels}"))
            })?),
        };
        let capabilities = Capabilities::read(&members[META_CAPABILITIES]);
        Ok(Self { members, capabilities, log })
    }

    /// The client's name.
    pub(super) fn client(&self) -> Option<&str> {
        self.members.get(META_CLIENT).and_then(|client| client["name"].as_str())
    }
}
