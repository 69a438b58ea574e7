//! HTTP requests to the hub.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use plexus_proto::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{IDEMPOTENCY_KEY, OCCURRED_AT, STATELESS};
use crate::param_headers::{ParamHeader, header_text, param_headers};
use crate::server::modern::meta::{META_CAPABILITIES, META_CLIENT, META_VERSION};
use crate::server::rpc::{Message, RpcError};
use crate::server::{call, modern};

/// Header names.
pub mod headers {
    use http::HeaderName;

    pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
    pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
    pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
    pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
    pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
    /// The conversation of a client that does not name it.
    pub const CONVERSATION: HeaderName = HeaderName::from_static("plexus-session");
    /// The client's working folder.
    pub const FOLDER: HeaderName = HeaderName::from_static("plexus-folder");
}

/// Whether a message belongs to the stateless revision, by its content or its version header.
#[must_use]
pub fn is_modern(message: &Message<'_>, version: Option<&str>) -> bool {
    let era = version.map(crate::version::Era::parse);
    modern::is_modern(message, era.as_ref())
}

/// Checks what the hub checks before it looks at the method. `headers` are those of a POST.
///
/// # Errors
/// If a message lacks members that its revision requires, or its headers contradict it.
pub fn check(message: &Message<'_>, headers: Option<&HeaderMap>) -> Result<(), RpcError> {
    let version = match headers {
        Some(headers) => {
            crate::server::headers::check_media_types(headers)?;
            crate::server::headers::protocol_version(headers)
        }
        None => Ok(None),
    };
    let Message::Request(request) = message else { return version.map(drop) };
    let checked = version.and_then(|version| match modern::is_modern(message, version.as_ref()) {
        true => modern::checked(request, headers).map(drop),
        false => Ok(()),
    });
    checked.map_err(|error| error.with_id(request.id))
}

/// The headers of every POST.
fn post_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(10);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// The headers of a message. In the stateless revision they repeat parts of its content.
#[must_use]
pub fn message_headers(message: &Message<'_>, version: Option<&str>) -> HeaderMap {
    let mut headers = post_headers();
    if let Some(version) = version.and_then(|version| HeaderValue::from_str(version).ok()) {
        headers.insert(headers::PROTOCOL_VERSION, version);
    }
    let (Message::Request(_) | Message::Notification(_)) = message else { return headers };
    if !is_modern(message, version) {
        return headers;
    }
    let (method, params) = match message {
        Message::Request(request) => (&*request.method, &request.params),
        Message::Notification(notification) => (&*notification.method, &notification.params),
        Message::Response { .. } => return headers,
    };
    let named_version = modern::meta::version(params).unwrap_or_else(|| STATELESS.to_owned());
    headers.insert(headers::PROTOCOL_VERSION, header_text(&named_version));
    headers.insert(headers::METHOD, header_text(method));
    if let Some(name) = call::routed_name(method, params) {
        headers.insert(headers::NAME, header_text(&name));
    }
    headers
}

/// The headers for the arguments that a tool's schema marks.
pub(super) fn argument_headers(schema: &Value, arguments: &Value) -> Vec<(HeaderName, HeaderValue)> {
    let marks = param_headers(schema).unwrap_or_default();
    let header = |mark: &ParamHeader| Some((mark.header.clone(), header_text(&mark.text(arguments)?)));
    marks.iter().filter_map(header).collect()
}

/// A request of the stateless revision that the proxy itself makes.
#[derive(Debug)]
pub struct StatelessRequest<'a> {
    pub method: &'static str,
    /// The name for the `Mcp-Name` header.
    pub name: Option<&'a str>,
    pub params: Map<String, Value>,
    /// The `clientInfo` of the client it is made for.
    pub client: Option<Value>,
    /// The idempotency key of a write, and the time it was accepted.
    pub write: Option<(&'a str, Timestamp)>,
}

impl StatelessRequest<'_> {
    /// The headers and the body.
    #[must_use]
    pub fn build(self) -> (HeaderMap, Vec<u8>) {
        let Self { method, name, mut params, client, write } = self;
        let mut meta = Map::new();
        meta.insert(META_VERSION.to_owned(), STATELESS.into());
        meta.insert(META_CAPABILITIES.to_owned(), json!({}));
        if let Some(client) = client {
            meta.insert(META_CLIENT.to_owned(), client);
        }
        if let Some((key, occurred_at)) = write {
            meta.insert(IDEMPOTENCY_KEY.to_owned(), key.into());
            meta.insert(OCCURRED_AT.to_owned(), occurred_at.to_string().into());
        }
        params.insert("_meta".to_owned(), Value::Object(meta));
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut headers = post_headers();
        headers.insert(headers::PROTOCOL_VERSION, HeaderValue::from_static(STATELESS));
        headers.insert(headers::METHOD, HeaderValue::from_static(method));
        if let Some(name) = name {
            headers.insert(headers::NAME, header_text(name));
        }
        (headers, body.to_string().into_bytes())
    }
}

/// The `clientInfo` in the `_meta` of a stateless request.
#[must_use]
pub fn client_info(meta: Option<&RawValue>) -> Option<Value> {
    let meta: Map<String, Value> = serde_json::from_str(meta?.get()).ok()?;
    meta.get(META_CLIENT).cloned()
}
