//! The headers that identify the session or era in every request.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use plexus_mcp::param_headers::header_text;
use plexus_proto::api::UpstreamEra;

use plexus_mcp::http_client::Endpoint;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A session of the session era, or the absence of one in the stateless era.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) era: UpstreamEra,
    /// The endpoint where it began, after redirects; later requests go there.
    pub(super) endpoint: Arc<Endpoint>,
    /// A server of the session era need not assign an id.
    pub(super) has_id: bool,
    /// The headers of every POST.
    headers: HeaderMap,
}

impl Session {
    /// The state before the handshake.
    pub(super) fn before_handshake(endpoint: Arc<Endpoint>) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { era: UpstreamEra::Session, endpoint, has_id: false, headers }
    }

    /// After a handshake of the session era.
    pub(super) fn initialized(endpoint: Arc<Endpoint>, revision: &str, id: Option<HeaderValue>) -> Self {
        let mut session = Self::before_handshake(endpoint);
        session.has_id = id.is_some();
        session.set_header(PROTOCOL_VERSION, revision);
        if let Some(mut id) = id {
            // Whoever has the id can act within the session.
            id.set_sensitive(true);
            session.headers.insert(SESSION_ID, id);
        }
        session
    }

    /// After a handshake of the stateless era.
    pub(super) fn stateless(endpoint: Arc<Endpoint>, revision: &str) -> Self {
        let mut session = Self::before_handshake(endpoint);
        session.era = UpstreamEra::Stateless;
        session.set_header(PROTOCOL_VERSION, revision);
        session
    }

    fn set_header(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    /// The headers of a POST. The stateless era requires the method and the name of its subject in headers.
    pub(super) fn post(&self, method: &'static str, name: Option<&str>) -> HeaderMap {
        let mut headers = self.headers.clone();
        if self.era == UpstreamEra::Stateless {
            headers.insert(METHOD, HeaderValue::from_static(method));
            if let Some(name) = name {
                headers.insert(NAME, header_text(name));
            }
        }
        headers
    }

    /// The headers of a GET for an event stream, resumed after the given event.
    pub(super) fn stream(&self, last_event_id: Option<&str>) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, EVENTS);
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        headers
    }

    /// The headers of the DELETE that ends the session.
    pub(super) fn end(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers
    }
}
