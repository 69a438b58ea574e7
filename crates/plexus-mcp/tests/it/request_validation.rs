//! 2026-07-28: validation of requests, and the order of the checks.

use plexus_testkit::{McpClient, RawConnection, TestHub};
use serde_json::{Value, json};

/// A change to the request's headers.
enum Header {
    Set(&'static str, &'static str),
    /// Adds a header with the same name.
    More(&'static str, &'static str),
    Drop(&'static str),
}
use Header::{Drop, More, Set};

/// `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name` agree with the body unless a row changes them.
struct Case {
    label: &'static str,
    method: &'static str,
    /// JSON in which the keys of [`META`] are replaced by their values.
    params: &'static str,
    headers: &'static [Header],
    status: u16,
    /// 0: no error.
    code: i64,
}

const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Placeholders for `_meta`, longest first.
#[rustfmt::skip]
const META: &[(&str, &str)] = &[
    ("META-NO-CAPABILITIES", r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#),
    ("META-NO-VERSION",      r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#),
    ("META-VERSION-7",       r#"{"io.modelcontextprotocol/protocolVersion":7,"io.modelcontextprotocol/clientCapabilities":{}}"#),
    ("META-CAPS-TRUE",       r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":true}"#),
    ("META-V999",            r#"{"io.modelcontextprotocol/protocolVersion":"v999.0.0","io.modelcontextprotocol/clientCapabilities":{}}"#),
    ("META-2025",            r#"{"io.modelcontextprotocol/protocolVersion":"2025-06-18","io.modelcontextprotocol/clientCapabilities":{}}"#),
    ("META-LOUD",            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"}"#),
    ("META-DEBUG",           r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug","traceparent":"00-1-2-00","x/y":[1]}"#),
    ("META-TOKEN-TRUE",      r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":true}"#),
    ("META-KEY-7",           r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"plexus/idempotency-key":7}"#),
    ("META-WHEN-NONSENSE",   r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"plexus/idempotency-key":"w","plexus/occurred-at":"yesterday"}"#),
    ("META-WHEN-7",          r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"plexus/idempotency-key":"w","plexus/occurred-at":7}"#),
    ("META-WHEN-LOCAL",      r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"plexus/idempotency-key":"w","plexus/occurred-at":"2026-11-18T06:00:00"}"#),
    ("META-WHEN",            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"plexus/idempotency-key":"w","plexus/occurred-at":"2026-11-18T06:00:00.5+01:00"}"#),
    ("META",                 r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#),
];

#[rustfmt::skip]
const CASES: &[Case] = &[
    // Valid; client info is not required.
    Case { label: "discover",                     method: "server/discover", params: r#"{"_meta":META}"#,                              headers: &[], status: 200, code: 0 },
    Case { label: "list",                         method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[], status: 200, code: 0 },
    Case { label: "call",                         method: "tools/call",      params: r#"{"name":"session_info","_meta":META}"#,        headers: &[], status: 200, code: 0 },
    Case { label: "meta with more in it",         method: "tools/list",      params: r#"{"_meta":META-DEBUG}"#,                        headers: &[], status: 200, code: 0 },
    // Media types.
    Case { label: "content type missing",         method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Drop("content-type")],                                status: 415, code: -32600 },
    Case { label: "content type of a form",       method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set("content-type", "text/plain")],                   status: 415, code: -32600 },
    Case { label: "content type with a charset",  method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set("content-type", "Application/JSON; charset=utf-8")], status: 200, code: 0 },
    Case { label: "accepts JSON only",            method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set("accept", "application/json")],                   status: 406, code: -32600 },
    Case { label: "accepts streams only",         method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set("accept", "text/event-stream")],                  status: 406, code: -32600 },
    Case { label: "accepts anything",             method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set("accept", "*/*")],                                status: 200, code: 0 },
    Case { label: "does not say what it accepts", method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Drop("accept")],                                      status: 200, code: 0 },
    // Duplicates, even of equal values.
    Case { label: "version twice",                method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[More(VERSION, "2026-07-28")],                         status: 400, code: -32020 },
    Case { label: "method twice",                 method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[More(METHOD, "tools/list")],                          status: 400, code: -32020 },
    Case { label: "name twice",                   method: "tools/call",      params: r#"{"name":"session_info","_meta":META}"#,        headers: &[More(NAME, "session_info")],                          status: 400, code: -32020 },
    // `_meta` before the headers.
    Case { label: "no params",                    method: "tools/list",      params: "",                                               headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "no meta",                      method: "server/discover", params: "{}",                                             headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "no meta, wrong method header", method: "server/discover", params: "{}",                                             headers: &[Set(METHOD, "tools/list")],                           status: 400, code: -32602 },
    Case { label: "no meta, no headers",          method: "server/discover", params: "{}",                                             headers: &[Drop(VERSION), Drop(METHOD)],                         status: 400, code: -32602 },
    Case { label: "no meta, unknown version",     method: "tools/list",      params: "{}",                                             headers: &[Set(VERSION, "v999.0.0")],                            status: 400, code: -32602 },
    Case { label: "meta null",                    method: "tools/list",      params: r#"{"_meta":null}"#,                              headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "meta an array",                method: "tools/list",      params: r#"{"_meta":[]}"#,                                headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "meta empty",                   method: "tools/list",      params: r#"{"_meta":{}}"#,                                headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "meta without version",         method: "tools/list",      params: r#"{"_meta":META-NO-VERSION}"#,                   headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "meta with a number there",     method: "tools/list",      params: r#"{"_meta":META-VERSION-7}"#,                    headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "meta without capabilities",    method: "tools/list",      params: r#"{"_meta":META-NO-CAPABILITIES}"#,              headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "capabilities no object",       method: "tools/list",      params: r#"{"_meta":META-CAPS-TRUE}"#,                    headers: &[],                                                    status: 400, code: -32602 },
    // Headers are compared with the body before the version is checked.
    Case { label: "version header missing",       method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Drop(VERSION)],                                       status: 400, code: -32020 },
    Case { label: "version of another era",       method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set(VERSION, "2025-11-25")],                          status: 400, code: -32020 },
    Case { label: "version header unknown",       method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set(VERSION, "v999.0.0")],                            status: 400, code: -32020 },
    Case { label: "version in meta unknown",      method: "tools/list",      params: r#"{"_meta":META-V999}"#,                         headers: &[],                                                    status: 400, code: -32020 },
    Case { label: "version with spaces around",   method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set(VERSION, "  2026-07-28\t")],                      status: 200, code: 0 },
    Case { label: "version in bytes",             method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set(VERSION, "２026-07-28")],                         status: 400, code: -32020 },
    Case { label: "method header missing",        method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Drop(METHOD)],                                        status: 400, code: -32020 },
    Case { label: "method header of another",     method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set(METHOD, "tools/call")],                           status: 400, code: -32020 },
    Case { label: "method in capitals",           method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set(METHOD, "TOOLS/LIST")],                           status: 400, code: -32020 },
    Case { label: "method with spaces around",    method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set(METHOD, "  tools/list  ")],                       status: 200, code: 0 },
    Case { label: "method in Base64",             method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set(METHOD, "=?base64?dG9vbHMvbGlzdA==?=")],          status: 400, code: -32020 },
    Case { label: "unknown method, wrong header", method: "no/such",         params: r#"{"_meta":META}"#,                              headers: &[Set(METHOD, "tools/list")],                           status: 400, code: -32020 },
    Case { label: "discover, method missing",     method: "server/discover", params: r#"{"_meta":META}"#,                              headers: &[Drop(METHOD)],                                        status: 400, code: -32020 },
    // The version is checked before the method.
    Case { label: "both say an unknown version",  method: "tools/list",      params: r#"{"_meta":META-V999}"#,                         headers: &[Set(VERSION, "v999.0.0")],                            status: 400, code: -32022 },
    Case { label: "unknown version and method",   method: "no/such",         params: r#"{"_meta":META-V999}"#,                         headers: &[Set(VERSION, "v999.0.0")],                            status: 400, code: -32022 },
    Case { label: "discover of the session era",  method: "server/discover", params: r#"{"_meta":META-2025}"#,                         headers: &[Set(VERSION, "2025-06-18")],                          status: 400, code: -32022 },
    // A session-era revision in both places requires a session.
    Case { label: "both say the session era",     method: "tools/list",      params: r#"{"_meta":META-2025}"#,                         headers: &[Set(VERSION, "2025-06-18")],                          status: 400, code: -32600 },
    // Parameters are checked by the method.
    Case { label: "log level unheard of",         method: "tools/list",      params: r#"{"_meta":META-LOUD}"#,                         headers: &[],                                                    status: 200, code: -32602 },
    Case { label: "unknown tool",                 method: "tools/call",      params: r#"{"name":"nope","_meta":META}"#,                headers: &[],                                                    status: 200, code: -32602 },
    Case { label: "arguments an array",           method: "tools/call",      params: r#"{"name":"todo","arguments":[],"_meta":META}"#, headers: &[],                                                    status: 200, code: -32602 },
    Case { label: "progress token a boolean",     method: "tools/call",      params: r#"{"name":"session_info","_meta":META-TOKEN-TRUE}"#, headers: &[],                                                status: 200, code: -32602 },
    Case { label: "idempotency key a number",     method: "tools/call",      params: r#"{"name":"session_info","_meta":META-KEY-7}"#,  headers: &[],                                                    status: 200, code: -32602 },
    Case { label: "time a word",                  method: "tools/call",      params: r#"{"name":"session_info","_meta":META-WHEN-NONSENSE}"#,  headers: &[],                                                    status: 200, code: -32602 },
    Case { label: "time a number",                method: "tools/call",      params: r#"{"name":"session_info","_meta":META-WHEN-7}"#,  headers: &[],                                                    status: 200, code: -32602 },
    Case { label: "time without an offset",       method: "tools/call",      params: r#"{"name":"session_info","_meta":META-WHEN-LOCAL}"#,  headers: &[],                                                    status: 200, code: -32602 },
    Case { label: "time with an offset",          method: "tools/call",      params: r#"{"name":"session_info","_meta":META-WHEN}"#,  headers: &[],                                                    status: 200, code: 0 },
    Case { label: "bad cursor",                   method: "tools/list",      params: r#"{"cursor":"?","_meta":META}"#,                 headers: &[],                                                    status: 200, code: -32602 },
    Case { label: "listen without notifications", method: "subscriptions/listen", params: r#"{"_meta":META}"#,                         headers: &[],                                                    status: 400, code: -32602 },
    Case { label: "notifications a list",         method: "subscriptions/listen", params: r#"{"notifications":[],"_meta":META}"#,      headers: &[],                                                    status: 400, code: -32602 },
    // Ignored in this revision.
    Case { label: "a session id is ignored",      method: "tools/list",      params: r#"{"_meta":META}"#,                              headers: &[Set("mcp-session-id", "gone"), Set("last-event-id", "c-1-1")], status: 200, code: 0 },
];

fn body_of(method: &str, params: &str) -> Value {
    let mut params = params.to_owned();
    for (word, meta) in META {
        params = params.replace(word, meta);
    }
    let mut body = json!({ "jsonrpc": "2.0", "id": "the id", "method": method });
    if !params.is_empty() {
        body["params"] = serde_json::from_str(&params).unwrap_or_else(|e| panic!("{params}: {e}"));
    }
    body
}

fn apply(mut client: McpClient, changes: &[Header]) -> McpClient {
    for change in changes {
        client = match change {
            Set(name, value) => client.header(name, value),
            More(name, value) => client.another_header(name, value),
            Drop(name) => client.without(name),
        };
    }
    client
}

#[tokio::test]
async fn checks_are_made_in_order() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("climber", &["call:*"]).await.token);
    for case in CASES {
        let body = body_of(case.method, case.params);
        let mut with_headers = client.header(VERSION, "2026-07-28").header(METHOD, case.method);
        if let Some(name) = body["params"]["name"].as_str() {
            with_headers = with_headers.header(NAME, name);
        }
        let answer = apply(with_headers, case.headers).post_json(&body).await;
        let label = format!("{}: {answer:?}", case.label);
        assert_eq!(answer.status, case.status, "{label}");
        let json = answer.json();
        assert_eq!(json["error"]["code"].as_i64().unwrap_or(0), case.code, "{label}");
        assert_eq!(answer.header("mcp-session-id"), None, "{label}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{label}");
        // Before the body is parsed, the id is unknown.
        let id = if matches!(case.status, 406 | 415) { Value::Null } else { json!("the id") };
        assert_eq!(json["id"], id, "{label}");
        assert!(![-32002, -32042].contains(&case.code), "{label}");
        if case.code == -32022 {
            let supported = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
            assert_eq!(json["error"]["data"]["supported"], json!(supported), "{label}");
            let requested = &body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            assert_eq!(&json["error"]["data"]["requested"], requested, "{label}");
        }
    }
}

struct Name {
    label: &'static str,
    /// The `Mcp-Name` header.
    header: Option<&'static str>,
    /// The tool in the body.
    tool: &'static str,
    /// HTTP status and code: 0 if the call succeeds, -32602 if the header is accepted but the tool does not exist.
    answer: (u16, i64),
}

#[rustfmt::skip]
const NAMES: &[Name] = &[
    Name { label: "plain",                            header: Some("session_info"),                     tool: "session_info",         answer: (200, 0) },
    Name { label: "with spaces around",               header: Some("  session_info  "),                 tool: "session_info",         answer: (200, 0) },
    Name { label: "a plain name encoded",             header: Some("=?base64?c2Vzc2lvbl9pbmZv?="),      tool: "session_info",         answer: (200, 0) },
    Name { label: "encoded, with spaces around",      header: Some(" =?base64?c2Vzc2lvbl9pbmZv?= "),    tool: "session_info",         answer: (200, 0) },
    Name { label: "missing",                          header: None,                                     tool: "session_info",         answer: (400, -32020) },
    Name { label: "empty",                            header: Some(""),                                 tool: "session_info",         answer: (400, -32020) },
    Name { label: "another",                          header: Some("todo"),                             tool: "session_info",         answer: (400, -32020) },
    Name { label: "in capitals",                      header: Some("SESSION_INFO"),                     tool: "session_info",         answer: (400, -32020) },
    Name { label: "a variant the hub would resolve",  header: Some("session-info"),                     tool: "session_info",         answer: (400, -32020) },
    Name { label: "bytes that are not ASCII",         header: Some("tödö"),                             tool: "tödö",                 answer: (400, -32020) },
    Name { label: "the same, encoded",                header: Some("=?base64?dMO2ZMO2?="),              tool: "tödö",                 answer: (200, -32602) },
    Name { label: "another, encoded",                 header: Some("=?base64?dG9kbw==?="),              tool: "session_info",         answer: (400, -32020) },
    Name { label: "encoded text that looks encoded",  header: Some("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="), tool: "=?base64?literal?=", answer: (200, -32602) },
    Name { label: "padding missing",                  header: Some("=?base64?dG9kbw?="),                tool: "todo",                 answer: (400, -32020) },
    Name { label: "bits left over",                   header: Some("=?base64?dG9kbx==?="),              tool: "todo",                 answer: (400, -32020) },
    Name { label: "bad alphabet",                     header: Some("=?base64?dG9k-w==?="),              tool: "todo",                 answer: (400, -32020) },
    Name { label: "not UTF-8",                        header: Some("=?base64?//4=?="),                  tool: "todo",                 answer: (400, -32020) },
    Name { label: "no suffix: taken literally",       header: Some("=?base64?dG9kbw=="),                tool: "todo",                 answer: (400, -32020) },
    Name { label: "no suffix, and meant so",          header: Some("=?base64?dG9kbw=="),                tool: "=?base64?dG9kbw==",    answer: (200, -32602) },
    Name { label: "no prefix: taken literally",       header: Some("dG9kbw==?="),                       tool: "todo",                 answer: (400, -32020) },
    Name { label: "marker in capitals: literally",    header: Some("=?BASE64?dG9kbw==?="),              tool: "todo",                 answer: (400, -32020) },
    Name { label: "nothing encoded",                  header: Some("=?base64??="),                      tool: "todo",                 answer: (400, -32020) },
];

#[tokio::test]
async fn name_header_is_decoded_before_comparison() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("climber", &["call:*"]).await.token);
    for name in NAMES {
        let (client, body) = client.modern_request(1, "tools/call", json!({ "arguments": {} }));
        let mut body = body;
        body["params"]["name"] = json!(name.tool);
        let client = match name.header {
            Some(value) => client.header(NAME, value),
            None => client.without(NAME),
        };
        let answer = client.post_json(&body).await;
        let code = answer.json()["error"]["code"].as_i64().unwrap_or(0);
        assert_eq!((answer.status, code), name.answer, "{}: {answer:?}", name.label);
    }
}

#[tokio::test]
async fn header_names_are_case_insensitive() {
    let hub = TestHub::start().await;
    let token = hub.token("climber", &["call:*"]).await.token;
    let body = body_of("tools/call", r#"{"name":"session_info","_meta":META}"#).to_string();
    for (version, method, name) in [
        ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"),
        ("mcp-protocol-version", "mcp-method", "mcp-name"),
        ("MCP-PROTOCOL-VERSION", "MCP-METHOD", "MCP-NAME"),
    ] {
        let mut connection = RawConnection::open(hub.address()).await;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             {version}: 2026-07-28\r\n{method}:\t tools/call \r\n{name}:session_info\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        connection.send(format!("{head}{body}")).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["result"]["isError"], false);
    }
}

const UNKNOWN_METHODS: &[&str] = &[
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
    "tasks/list",
    "notifications/initialized",
    "unknown/method",
    "tools/List",
    "",
];

#[tokio::test]
async fn removed_or_unknown_method_is_a_404() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("climber", &["call:*"]).await.token);
    for method in UNKNOWN_METHODS {
        let answer = client.modern(method, json!({})).await;
        assert_eq!(answer.error(), (404, -32601), "{method}");
        assert_eq!(answer.json()["id"], 1, "{method}");
    }
    // The name header is checked first.
    for (method, key) in [("prompts/get", "name"), ("resources/read", "uri")] {
        let (client, body) = client.modern_request(1, method, json!({ key: "file:///x" }));
        let unnamed = client.without(NAME).post_json(&body).await;
        assert_eq!(unnamed.error(), (400, -32020), "{method}");
        assert_eq!(client.post_json(&body).await.error(), (200, -32602), "{method}: there is none");
    }
}

struct Shape {
    label: &'static str,
    body: &'static str,
    status: u16,
    /// 0: an empty body.
    code: i64,
}

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    Shape { label: "not JSON",            body: "{",                                                          status: 400, code: -32700 },
    Shape { label: "nothing",             body: "",                                                           status: 400, code: -32700 },
    Shape { label: "two documents",       body: "{} {}",                                                      status: 400, code: -32700 },
    Shape { label: "not UTF-8 text",      body: "\"\\ud800",                                                  status: 400, code: -32700 },
    Shape { label: "a number",            body: "1",                                                          status: 400, code: -32600 },
    Shape { label: "a batch",             body: r#"[{"jsonrpc":"2.0","id":1,"method":"server/discover"}]"#,    status: 400, code: -32600 },
    Shape { label: "an empty batch",      body: "[]",                                                         status: 400, code: -32600 },
    Shape { label: "a posted result",     body: r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,                    status: 400, code: -32600 },
    Shape { label: "a posted error",      body: r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#, status: 400, code: -32600 },
    Shape { label: "jsonrpc missing",     body: r#"{"id":1,"method":"tools/list"}"#,                          status: 400, code: -32600 },
    Shape { label: "id null",             body: r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#,       status: 400, code: -32600 },
    Shape { label: "a notification",      body: r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#, status: 202, code: 0 },
    Shape { label: "any notification",    body: r#"{"jsonrpc":"2.0","method":"notifications/unheard_of"}"#,   status: 202, code: 0 },
];

#[tokio::test]
async fn body_must_be_one_request_or_notification() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("climber", &["call:*"]).await.token).header(VERSION, "2026-07-28");
    for shape in SHAPES {
        let answer = client.post(shape.body).await;
        assert_eq!(answer.status, shape.status, "{}: {answer:?}", shape.label);
        match shape.code {
            0 => assert_eq!(answer.body, "", "{}", shape.label),
            code => assert_eq!(answer.error(), (shape.status, code), "{}", shape.label),
        }
    }
}
