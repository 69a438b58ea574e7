//! Fuzzes reader positions: cursors of lists, event numbers, `Last-Event-ID`, and the filters of streams.
//!
//! The hub accepts a cursor that it has issued or could have issued, and refuses any other.

use arbitrary::{Arbitrary, Unstructured};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::Target;
use super::wire::{Reply, Wire};

/// Number of events in the session that is read.
const EVENTS: i64 = 12;

pub struct CursorTarget {
    wire: Wire,
    token: String,
    mcp_session: String,
    session: String,
}

#[derive(Debug, Arbitrary)]
enum Query<'a> {
    Page {
        list: List,
        cursor: Cursor<'a>,
        limit: Option<i8>,
        after: Option<Number<'a>>,
        kind: Option<&'a str>,
    },
    Stream {
        one: bool,
        after: Option<Number<'a>>,
        last: Option<Number<'a>>,
        filters: Vec<(Filter, &'a str)>,
        resume: Option<Number<'a>>,
    },
    Tools {
        cursor: Cursor<'a>,
    },
    Resume {
        id: McpEvent<'a>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Arbitrary)]
enum List {
    Events,
    Sessions,
    Tools,
    Tokens,
    Audit,
}

#[derive(Debug, Arbitrary)]
enum Cursor<'a> {
    None,
    Text(&'a str),
    /// A cursor of this list, in the hub's format.
    Of(List, &'a str),
    /// The cursor after the event with this number.
    Event(i64),
    /// A cursor in the format of MCP.
    Tool(&'a str),
}

#[derive(Debug, Arbitrary)]
enum Number<'a> {
    Is(i64),
    Small(u8),
    Text(&'a str),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Filter {
    Kind,
    Owner,
    Session,
    OwnSession,
    Unknown,
}

#[derive(Debug, Arbitrary)]
enum McpEvent<'a> {
    Call(u64, u64),
    List(u64),
    Text(&'a str),
}

impl Target for CursorTarget {
    const NAME: &'static str = "cursor";

    fn start() -> Self {
        let wire = Wire::start();
        let hub = wire.hub();
        let (token, mcp_session, session) = wire.wait(async {
            let token = hub.token("fuzz", &["call:*"]).await.token;
            let (client, _) = hub.mcp(&token).initialize("2025-11-25").await;
            hub.mcp(&token).tool("todo", json!({ "action": "list" })).await;
            let sessions = hub.api("/api/v1/sessions").await;
            let session = sessions["items"][0]["id"].as_str().expect("a session").to_owned();
            let path = format!("/api/v1/sessions/{session}/events");
            let missing =
                EVENTS - hub.api(&path).await["items"].as_array().map_or(0, |items| items.len() as i64);
            let events: Vec<Value> = (0..missing).map(|_| json!({ "kind": "note", "payload": {} })).collect();
            let request =
                hub.http().post(hub.url(&path)).bearer_auth(&token).json(&json!({ "events": events }));
            assert_eq!(request.send().await.expect("an answer").status(), 200);
            (token, client.session_id().expect("a session").to_owned(), session)
        });
        Self { wire, token, mcp_session, session }
    }

    fn run(&mut self, input: &[u8]) {
        let Ok(query) = Query::arbitrary_take_rest(Unstructured::new(input)) else { return };
        match &query {
            Query::Page { list, cursor, limit, after, kind } => {
                self.page(*list, cursor, *limit, after.as_ref(), *kind)
            }
            Query::Stream { one, after, last, filters, resume } => {
                let path = match one {
                    true => format!("/api/v1/sessions/{}/events/stream", self.session),
                    false => "/api/v1/events/stream".to_owned(),
                };
                let mut params = QueryString::default();
                params.number("after", after.as_ref()).number("last", last.as_ref());
                for (filter, value) in filters.iter().take(80) {
                    match filter {
                        Filter::Kind => params.add("kind", value),
                        Filter::Owner => params.add("owner", value),
                        Filter::Session => params.add("session", value),
                        Filter::OwnSession => params.add("session", &self.session),
                        Filter::Unknown => params.add(value, value),
                    };
                }
                let resume = resume
                    .as_ref()
                    .map(|number| format!("Last-Event-ID: {}\r\n", header_value(&number.text())));
                let reply = self.get(&path, &params, &resume.unwrap_or_default());
                assert!(matches!(reply.status, 200 | 400 | 429), "{query:?}: {reply:?}");
                drop(reply.events());
            }
            Query::Tools { cursor } => self.tools(cursor),
            Query::Resume { id } => {
                let id = match id {
                    McpEvent::Call(stream, message) => format!("c-{stream}-{message}"),
                    McpEvent::List(list) => format!("g-{list:016x}"),
                    McpEvent::Text(text) => header_value(text),
                };
                let headers = format!("Mcp-Session-Id: {}\r\nLast-Event-ID: {id}\r\n", self.mcp_session);
                let reply = self.get("/mcp", &QueryString::default(), &headers);
                assert!(matches!(reply.status, 200 | 429), "{query:?}: {reply:?}");
            }
        }
    }
}

impl std::fmt::Debug for CursorTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CursorTarget").field("session", &self.session).finish_non_exhaustive()
    }
}

impl CursorTarget {
    fn get(&mut self, path: &str, params: &QueryString, headers: &str) -> Reply {
        let token = if path.contains("/tokens") || path.contains("/audit") {
            self.wire.hub().admin_token()
        } else {
            self.token.clone()
        };
        let head = format!(
            "GET {path}{} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\n{headers}",
            params.0
        );
        self.wire.ask(head.as_bytes(), b"")
    }

    fn page(
        &mut self,
        list: List,
        cursor: &Cursor<'_>,
        limit: Option<i8>,
        after: Option<&Number<'_>>,
        kind: Option<&str>,
    ) {
        let path = match list {
            List::Events => format!("/api/v1/sessions/{}/events", self.session),
            list => format!("/api/v1/{}", list.name()),
        };
        let (after, kind) = if list == List::Events { (after, kind) } else { (None, None) };
        let mut params = QueryString::default();
        let sent = cursor.text();
        if let Some(sent) = &sent {
            params.add("cursor", sent);
        }
        if let Some(limit) = limit {
            params.add("limit", &limit.to_string());
        }
        params.number("after", after);
        if let Some(kind) = kind {
            params.add("kind", kind);
        }
        let reply = self.get(&path, &params, "");
        let exchange = || format!("{path}{} was answered with {reply:?}", params.0);
        assert!(matches!(reply.status, 200 | 400), "{}", exchange());
        let is_of_list = |content: &Option<String>| {
            content.as_ref().is_some_and(|content| content.starts_with(&format!("{} ", list.name())))
        };
        if sent.as_deref().map(decoded).is_some_and(|content| !is_of_list(&content)) {
            assert_eq!(reply.status, 400, "an invalid cursor is accepted: {}", exchange());
        }
        if reply.status != 200 {
            return;
        }
        let page = reply.json();
        if let Some(next) = page["next"].as_str() {
            assert!(is_of_list(&decoded(next)), "the cursor of another list: {}", exchange());
        }
        if let (List::Events, Cursor::Event(seq), None, None) = (list, cursor, after, kind) {
            let limit = i64::from(limit.unwrap_or(50));
            let first = (*seq).max(0);
            let numbers: Vec<i64> = page["items"]
                .as_array()
                .expect("items")
                .iter()
                .filter_map(|item| item["seq"].as_i64())
                .collect();
            let expected: Vec<i64> =
                (first.min(EVENTS) + 1..=EVENTS).take(usize::try_from(limit).unwrap_or(0)).collect();
            assert_eq!(numbers, expected, "{}", exchange());
            let next = expected.last().filter(|last| **last < EVENTS).map(|last| Cursor::Event(*last).text());
            assert_eq!(page["next"].as_str(), next.flatten().as_deref(), "{}", exchange());
        }
    }

    /// Lists tools over MCP, where a cursor names a tool.
    fn tools(&mut self, cursor: &Cursor<'_>) {
        let cursor = cursor.text();
        let mut body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
        if let Some(cursor) = &cursor {
            body["params"]["cursor"] = json!(cursor);
        }
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMcp-Session-Id: {}\r\n",
            self.token, self.mcp_session
        );
        let reply = self.wire.ask(head.as_bytes(), body.to_string().as_bytes());
        let is_valid = cursor
            .as_deref()
            .is_none_or(|text| decoded(text).is_some_and(|content| content.starts_with("after:")));
        let answer = reply.json();
        assert_eq!(
            (reply.status, answer.get("result").is_some()),
            (200, is_valid),
            "{body} was answered with {answer}"
        );
    }
}

/// The query string of a URL.
#[derive(Debug, Default)]
struct QueryString(String);

impl QueryString {
    fn add(&mut self, name: &str, value: &str) -> &mut Self {
        let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        let value = if value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            value.to_owned()
        } else {
            escaped(value)
        };
        let name =
            if name.bytes().all(|byte| byte.is_ascii_lowercase()) { name.to_owned() } else { escaped(name) };
        self.0.push_str(&format!("{name}={value}"));
        self
    }

    fn number(&mut self, name: &str, number: Option<&Number<'_>>) -> &mut Self {
        if let Some(number) = number {
            self.add(name, &number.text());
        }
        self
    }
}

impl Number<'_> {
    fn text(&self) -> String {
        match self {
            Self::Is(number) => number.to_string(),
            Self::Small(number) => number.to_string(),
            Self::Text(text) => (*text).to_owned(),
        }
    }
}

impl List {
    fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Sessions => "sessions",
            Self::Tools => "tools",
            Self::Tokens => "tokens",
            Self::Audit => "audit",
        }
    }
}

impl Cursor<'_> {
    /// The cursor as it is sent.
    fn text(&self) -> Option<String> {
        Some(match self {
            Self::None => return None,
            Self::Text(text) => (*text).to_owned(),
            Self::Of(list, position) => URL_SAFE_NO_PAD.encode(format!("{} {position}", list.name())),
            Self::Event(seq) => URL_SAFE_NO_PAD.encode(format!("events {seq}")),
            Self::Tool(name) => URL_SAFE_NO_PAD.encode(format!("after:{name}")),
        })
    }
}

fn decoded(cursor: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

/// Removes characters that a header cannot contain.
fn header_value(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
