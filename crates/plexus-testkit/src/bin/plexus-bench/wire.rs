//! The requests of both eras, as prepared bytes.

use std::fmt;
use std::net::SocketAddr;

use plexus_testkit::modern_meta;
use serde::Serialize;
use serde_json::{Value, json};

/// The protocol era of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Era {
    /// With a session, opened by `initialize`.
    #[serde(rename = "2025-11-25")]
    Session,
    /// Stateless requests.
    #[serde(rename = "2026-07-28")]
    Stateless,
}

impl Era {
    pub(crate) const ALL: [Self; 2] = [Self::Session, Self::Stateless];

    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Session => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.version())
    }
}

/// The endpoint of a contender.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) token: Option<String>,
}

impl Endpoint {
    /// A request with everything that its era requires. The id is always 1, so that equal answers are equal bytes.
    pub(crate) fn request(
        &self,
        era: Era,
        session: Option<&str>,
        method: &str,
        mut params: Value,
    ) -> Vec<u8> {
        let mut headers = String::new();
        if method != "initialize" {
            headers = format!("MCP-Protocol-Version: {era}\r\n");
        }
        if let Some(session) = session {
            headers.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        if era == Era::Stateless {
            params["_meta"] = modern_meta();
            headers.push_str(&format!("Mcp-Method: {method}\r\n"));
            if let ("tools/call", Some(name)) = (method, params["name"].as_str()) {
                headers.push_str(&format!("Mcp-Name: {name}\r\n"));
            }
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&headers, &body)
    }

    /// The notification that completes the handshake of a session.
    pub(crate) fn initialized(&self, session: Option<&str>) -> Vec<u8> {
        let session = session.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
        let headers = format!("MCP-Protocol-Version: {}\r\n{session}", Era::Session);
        self.post(&headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
    }

    fn post(&self, headers: &str, body: &Value) -> Vec<u8> {
        let body = body.to_string();
        let (path, host, token, length) = (self.path, self.address, self.authorization(), body.len());
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{token}{headers}Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// The request for the stream of a session.
    pub(crate) fn stream(&self, session: &str) -> Vec<u8> {
        let (path, host, token) = (self.path, self.address, self.authorization());
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n{token}\
             MCP-Protocol-Version: {}\r\nMcp-Session-Id: {session}\r\n\r\n",
            Era::Session
        )
        .into_bytes()
    }

    fn authorization(&self) -> String {
        self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default()
    }
}
