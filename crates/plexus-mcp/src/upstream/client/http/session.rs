//! What every request to a server says about the conversation it is part of.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use plexus_proto::api::UpstreamEra;

use super::place::Place;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A session of the older era, or the agreement that there is none.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) era: UpstreamEra,
    /// Where it was begun, after redirects: that is where it lives.
    pub(super) place: Arc<Place>,
    /// Also in the older era a server may keep none.
    pub(super) has_id: bool,
    /// Of every POST.
    headers: HeaderMap,
}

impl Session {
    /// Before anything was agreed on.
    pub(super) fn none(place: Arc<Place>) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { era: UpstreamEra::Session, place, has_id: false, headers }
    }

    /// With a revision of the session era.
    pub(super) fn begun(place: Arc<Place>, revision: &str, id: Option<HeaderValue>) -> Self {
        let mut session = Self::none(place);
        session.has_id = id.is_some();
        session.say(PROTOCOL_VERSION, revision);
        if let Some(mut id) = id {
            // Whoever has it can speak in its name.
            id.set_sensitive(true);
            session.headers.insert(SESSION_ID, id);
        }
        session
    }

    /// With the stateless revision.
    pub(super) fn stateless(place: Arc<Place>, revision: &str) -> Self {
        let mut session = Self::none(place);
        session.era = UpstreamEra::Stateless;
        session.say(PROTOCOL_VERSION, revision);
        session
    }

    fn say(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    /// The headers of a POST. The stateless era wants the method, and the name of what it acts on, repeated there.
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

    /// The headers of a GET for a stream of events, from where it was left.
    pub(super) fn stream(&self, last_event_id: Option<&str>) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, EVENTS);
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        headers
    }

    /// The headers of the DELETE that ends it.
    pub(super) fn end(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers
    }
}

/// A text as the value of a header: as it is where that is possible, else in Base64 between marks.
#[must_use]
pub fn header_text(text: &str) -> HeaderValue {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim_ascii().len() == text.len()
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let value = if plain { HeaderValue::from_str(text) } else { encoded(text) };
    // Neither form has a byte in it that a header could not carry.
    value.unwrap_or(HeaderValue::from_static(""))
}

fn encoded(text: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_sent_as_it_is_or_in_base64_between_marks() {
        for plain in ["echo", "a b", "mcp.tool-1_x", "=?base64?open", "", "~!"] {
            assert_eq!(header_text(plain), plain);
        }
        for (text, sent) in [
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            (" padded", "=?base64?IHBhZGRlZA==?="),
            ("line\nbreak", "=?base64?bGluZQpicmVhaw==?="),
        ] {
            assert_eq!(header_text(text), sent);
        }
    }
}
