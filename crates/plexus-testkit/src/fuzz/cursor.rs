//! Reader positions: cursors of lists, event numbers, `Last-Event-ID`, and the filters of streams.
//!
//! A cursor issued by the hub leads to the next page, one that the hub could have issued is accepted with its
//! meaning, and any other is refused.

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
enum Ask<'a> {
    Page {
        list: List,
        place: Place<'a>,
        limit: Option<i8>,
        after: Option<Number<'a>>,
        kind: Option<&'a str>,
    },
    Stream {
        one: bool,
        after: Option<Number<'a>>,
        last: Option<Number<'a>>,
        narrow: Vec<(Narrow, &'a str)>,
        resume: Option<Number<'a>>,
    },
    Tools {
        place: Place<'a>,
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

/// A cursor.
#[derive(Debug, Arbitrary)]
enum Place<'a> {
    None,
    Text(&'a str),
    /// Of this list, in the hub's format.
    Of(List, &'a str),
    /// After the event with this number.
    Event(i64),
    /// In the format of an MCP cursor.
    Tool(&'a str),
}

#[derive(Debug, Arbitrary)]
enum Number<'a> {
    Is(i64),
    Small(u8),
    Text(&'a str),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Narrow {
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
        let Ok(ask) = Ask::arbitrary_take_rest(Unstructured::new(input)) else { return };
        match &ask {
            Ask::Page { list, place, limit, after, kind } => {
                self.page(*list, place, *limit, after.as_ref(), *kind)
            }
            Ask::Stream { one, after, last, narrow, resume } => {
                let path = match one {
                    true => format!("/api/v1/sessions/{}/events/stream", self.session),
                    false => "/api/v1/events/stream".to_owned(),
                };
                let mut query = Query::default();
                query.number("after", after.as_ref()).number("last", last.as_ref());
                for (narrow, value) in narrow.iter().take(80) {
                    match narrow {
                        Narrow::Kind => query.add("kind", value),
                        Narrow::Owner => query.add("owner", value),
                        Narrow::Session => query.add("session", value),
                        Narrow::OwnSession => query.add("session", &self.session),
                        Narrow::Unknown => query.add(value, value),
                    };
                }
                let resume =
                    resume.as_ref().map(|number| format!("Last-Event-ID: {}\r\n", plain(&number.text())));
                let reply = self.get(&path, &query, &resume.unwrap_or_default());
                assert!(matches!(reply.status, 200 | 400 | 429), "{ask:?}: {reply:?}");
                reply.events().for_each(drop);
            }
            Ask::Tools { place } => self.tools(place),
            Ask::Resume { id } => {
                let id = match id {
                    McpEvent::Call(stream, message) => format!("c-{stream}-{message}"),
                    McpEvent::List(list) => format!("g-{list:016x}"),
                    McpEvent::Text(text) => plain(text),
                };
                let more = format!("Mcp-Session-Id: {}\r\nLast-Event-ID: {id}\r\n", self.mcp_session);
                let reply = self.get("/mcp", &Query::default(), &more);
                assert!(matches!(reply.status, 200 | 429), "{ask:?}: {reply:?}");
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
    fn get(&mut self, path: &str, query: &Query, more: &str) -> Reply {
        let token = if path.contains("/tokens") || path.contains("/audit") {
            self.wire.hub().admin_token()
        } else {
            self.token.clone()
        };
        let head = format!(
            "GET {path}{} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\n{more}",
            query.0
        );
        self.wire.ask(head.as_bytes(), b"")
    }

    fn page(
        &mut self,
        list: List,
        place: &Place<'_>,
        limit: Option<i8>,
        after: Option<&Number<'_>>,
        kind: Option<&str>,
    ) {
        let path = match list {
            List::Events => format!("/api/v1/sessions/{}/events", self.session),
            list => format!("/api/v1/{}", list.name()),
        };
        let (after, kind) = if list == List::Events { (after, kind) } else { (None, None) };
        let mut query = Query::default();
        let cursor = place.cursor();
        if let Some(cursor) = &cursor {
            query.add("cursor", cursor);
        }
        if let Some(limit) = limit {
            query.add("limit", &limit.to_string());
        }
        query.number("after", after);
        if let Some(kind) = kind {
            query.add("kind", kind);
        }
        let reply = self.get(&path, &query, "");
        let told = || format!("{path}{} was answered with {reply:?}", query.0);
        assert!(matches!(reply.status, 200 | 400), "{}", told());
        let says = cursor.as_deref().map(decoded);
        let of_this_list = |says: &Option<String>| {
            says.as_ref().is_some_and(|says| says.starts_with(&format!("{} ", list.name())))
        };
        if says.is_some_and(|says| !of_this_list(&says)) {
            assert_eq!(reply.status, 400, "a cursor of nothing is taken: {}", told());
        }
        if reply.status != 200 {
            return;
        }
        let page = reply.json();
        if let Some(next) = page["next"].as_str() {
            assert!(of_this_list(&decoded(next)), "another's cursor: {}", told());
        }
        if let (List::Events, Place::Event(seq), None, None) = (list, place, after, kind) {
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
            assert_eq!(numbers, expected, "{}", told());
            let more =
                expected.last().filter(|last| **last < EVENTS).map(|last| Place::Event(*last).cursor());
            assert_eq!(page["next"].as_str(), more.flatten().as_deref(), "{}", told());
        }
    }

    /// The tool list over MCP, whose cursors name a tool.
    fn tools(&mut self, place: &Place<'_>) {
        let cursor = place.cursor();
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
        let is_ours =
            cursor.as_deref().is_none_or(|text| decoded(text).is_some_and(|says| says.starts_with("after:")));
        let answer = reply.json();
        assert_eq!(
            (reply.status, answer.get("result").is_some()),
            (200, is_ours),
            "{body} was answered with {answer}"
        );
    }
}

/// The query of a URL.
#[derive(Debug, Default)]
struct Query(String);

impl Query {
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

impl Place<'_> {
    fn cursor(&self) -> Option<String> {
        Some(match self {
            Self::None => return None,
            Self::Text(text) => (*text).to_owned(),
            Self::Of(list, place) => URL_SAFE_NO_PAD.encode(format!("{} {place}", list.name())),
            Self::Event(seq) => URL_SAFE_NO_PAD.encode(format!("events {seq}")),
            Self::Tool(name) => URL_SAFE_NO_PAD.encode(format!("after:{name}")),
        })
    }
}

fn decoded(cursor: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

/// Removes characters that a header cannot contain.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
