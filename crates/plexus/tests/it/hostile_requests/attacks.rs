//! The attacks and the answers that they must get.

/// Body limit of the attacked hub.
pub(super) const BODY: usize = 64 * 1024;

/// The state of the connection after the answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum ConnectionState {
    /// It serves the next request.
    Open,
    /// It is closed without another answer.
    Closed,
    /// It is a WebSocket and is closed with this code.
    WebSocketClose(u16),
}

pub(super) struct Attack {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    /// Whether the client closes its side after these bytes.
    pub(super) half_closes: bool,
    /// 0: no answer.
    pub(super) status: u16,
    /// Error code of the envelope or of JSON-RPC; `ok` for a result, empty if the body is not from Plexus.
    pub(super) code: &'static str,
    pub(super) connection: ConnectionState,
}

/// A correct request head without the length and the end.
pub(super) fn head(method: &str, path: &str, token: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    )
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"todo","arguments":{"action":"list"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const HIDDEN: &str = "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n";

pub(super) fn attacks(token: &str) -> Vec<Attack> {
    let mut all = Vec::new();
    framing(token, &mut all);
    heads(token, &mut all);
    bodies(token, &mut all);
    websockets(token, &mut all);
    all
}

fn attack(
    name: impl Into<String>,
    bytes: impl Into<Vec<u8>>,
    (status, code): (u16, &'static str),
    connection: ConnectionState,
) -> Attack {
    Attack { name: name.into(), bytes: bytes.into(), half_closes: false, status, code, connection }
}

/// Request boundaries that two parsers may understand differently.
fn framing(token: &str, all: &mut Vec<Attack>) {
    use ConnectionState::{Closed, Open};
    let list = format!(
        "{}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
        head("POST", "/mcp", token)
    );
    let length = LIST.len();
    let chunks = format!("{length:x}\r\n{LIST}\r\n0\r\n\r\n");
    let plain = |lines: &str, body: &str| format!("{list}{lines}\r\n{body}");
    let refused = (400, "");
    let invalid = (400, "invalid_request");
    #[rustfmt::skip]
    let rows = [
        ("a length and chunks: the chunks count, the rest is not a request", plain("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", &format!("{chunks}{HIDDEN}")), (200, "ok"), Closed),
        ("chunks and a length",           plain(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), &format!("{chunks}{HIDDEN}")), (200, "ok"), Closed),
        ("two lengths",                   plain(&format!("Content-Length: {length}\r\nContent-Length: 1\r\n"), LIST), refused, Closed),
        ("a list of lengths",             plain(&format!("Content-Length: {length}, {length}\r\n"), LIST), refused, Closed),
        ("a length with a sign",          plain(&format!("Content-Length: +{length}\r\n"), LIST), refused, Closed),
        ("a negative length",             plain("Content-Length: -1\r\n", LIST), refused, Closed),
        ("a length beyond all numbers",   plain("Content-Length: 99999999999999999999\r\n", LIST), refused, Closed),
        ("the longest length",            plain("Content-Length: 18446744073709551615\r\n", LIST), (431, ""), Closed),
        ("identity",                      plain("Transfer-Encoding: identity\r\n", LIST), refused, Closed),
        ("xchunked",                      plain("Transfer-Encoding: xchunked\r\n", &chunks), refused, Closed),
        ("chunked, then identity",        plain("Transfer-Encoding: chunked, identity\r\n", &chunks), refused, Closed),
        ("chunked and identity",          plain("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", &chunks), refused, Closed),
        ("gzip, then chunked",            plain("Transfer-Encoding: gzip, chunked\r\n", &chunks), invalid, Open),
        ("chunked twice",                 plain("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", &chunks), invalid, Open),
        ("a coding where no body is read", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".to_owned(), invalid, Open),
        ("a space before the colon",      plain("Transfer-Encoding : chunked\r\n", &chunks), refused, Closed),
        ("a vertical tab",                plain("Transfer-Encoding: \x0bchunked\r\n", &chunks), refused, Closed),
        ("chunks in HTTP/1.0",            plain("Transfer-Encoding: chunked\r\n", &chunks).replacen("1.1", "1.0", 1), refused, Closed),
        ("a chunk with an extension",     plain("Transfer-Encoding: chunked\r\n", &chunks.replacen("\r\n", ";a=b\r\n", 1)), (200, "ok"), Open),
        ("a line break in an extension",  plain("Transfer-Encoding: chunked\r\n", &chunks.replacen("\r\n", ";a\nb\r\n", 1)), invalid, Closed),
        ("an extension without end",      plain("Transfer-Encoding: chunked\r\n", &format!("1;{}", "x".repeat(40_000))), invalid, Closed),
        ("a chunk beyond all numbers",    plain("Transfer-Encoding: chunked\r\n", "ffffffffffffffffff\r\n"), invalid, Closed),
        ("the longest chunk",             plain("Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n{"), (408, "deadline_exceeded"), Closed),
        ("a negative chunk",              plain("Transfer-Encoding: chunked\r\n", "-1\r\n{"), invalid, Closed),
        ("a chunk in C",                  plain("Transfer-Encoding: chunked\r\n", "0x5\r\n{"), invalid, Closed),
        ("a chunk longer than it says",   plain("Transfer-Encoding: chunked\r\n", &chunks.replacen(&format!("{length:x}"), "5", 1)), invalid, Closed),
        ("a thousand trailers",           plain("Transfer-Encoding: chunked\r\n", &format!("{}\r\n{}\r\n", chunks.trim_end(), "X: y\r\n".repeat(2_000))), invalid, Closed),
        ("a request inside a body",       plain(&format!("Content-Length: {}\r\n", length + HIDDEN.len()), &format!("{LIST}{HIDDEN}")), (400, "-32700"), Open),
        ("a header that is folded",       plain(&format!("X-Folded: a\r\n b\r\nContent-Length: {length}\r\n"), LIST), refused, Closed),
        ("a bare carriage return",        plain(&format!("X-Bare: a\rb\r\nContent-Length: {length}\r\n"), LIST), refused, Closed),
        ("a NUL in a header",             plain(&format!("X-Nul: a\0b\r\nContent-Length: {length}\r\n"), LIST), refused, Closed),
        ("a coded body",                  plain(&format!("Content-Encoding: gzip\r\nContent-Length: {length}\r\n"), LIST), (415, "invalid_request"), Open),
        ("a body that is asked for",      plain(&format!("Expect: 100-continue\r\nContent-Length: {}\r\n", BODY + 1), ""), (413, "too_large"), Closed),
    ];
    all.extend(
        rows.into_iter().map(|(name, bytes, answer, connection)| attack(name, bytes, answer, connection)),
    );
}

/// Ambiguous hosts, credentials and protocols.
fn heads(token: &str, all: &mut Vec<Attack>) {
    use ConnectionState::{Closed, Open};
    let mcp = format!(
        "{}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
        head("POST", "/mcp", token)
    );
    let body = format!("Content-Length: {}\r\n\r\n{LIST}", LIST.len());
    let with = |line: &str| format!("{mcp}{line}\r\n{body}");
    let to = |target: &str| format!("{mcp}{body}").replacen("/mcp", target, 1);
    let call = |line: &str| {
        let head = head("POST", "/mcp", token);
        let routing = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: todo\r\n";
        format!("{head}{routing}{line}\r\nContent-Length: {}\r\n\r\n{CALL}", CALL.len())
    };
    let none = (0, "");
    #[rustfmt::skip]
    let rows = [
        ("a target that names this host",    to("http://localhost/mcp"), (200, "ok"), Open),
        ("a target that names another host", to("http://evil.example.com/mcp"), (403, "forbidden"), Open),
        ("a target in capitals",             to("http://LOCALHOST/mcp"), (200, "ok"), Open),
        ("a target of another scheme",       to("ftp://localhost/mcp"), (403, "forbidden"), Open),
        ("a target with another port",       to("http://localhost:1/mcp"), (403, "forbidden"), Open),
        ("a tunnel",                         "CONNECT evil.example.com:80 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), (403, "forbidden"), Open),
        ("a NUL in the target",              to("/mcp\0"), (400, ""), Closed),
        ("a path that climbs",               to("/api/v1/../../healthz"), (404, "not_found"), Open),
        ("a path over the limit",            to(&format!("/{}", "a".repeat(64 * 1024))), (431, ""), Closed),
        ("two hosts",                        with("Host: localhost"), (403, "forbidden"), Open),
        ("two tokens",                       with("Authorization: Bearer x"), (401, "unauthenticated"), Open),
        ("two content types",                with("Content-Type: application/json"), (415, "-32600"), Open),
        ("two revisions",                    with("MCP-Protocol-Version: 2025-11-25"), (400, "-32020"), Open),
        ("two methods",                      with("Mcp-Method: tools/list"), (400, "-32020"), Open),
        ("two names",                        with("Mcp-Name: a\r\nMcp-Name: b"), (400, "-32020"), Open),
        ("two sessions",                     format!("{}Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\nContent-Length: {}\r\n\r\n{PING}", head("POST", "/mcp", token), PING.len()), (400, "-32600"), Open),
        ("two names of a session",           call("Plexus-Session: a\r\nPlexus-Session: b"), (400, "-32600"), Open),
        ("HTTP/0.9",                         "GET /healthz\r\n".to_owned(), (400, ""), Closed),
        ("HTTP/1.2",                         with("X: y").replacen("1.1", "1.2", 1), (400, ""), Closed),
        ("HTTP/2",                           "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), none, Closed),
        ("TLS",                              "\x16\x03\x01\x02\x00\x01\x00".to_owned() + &"\0".repeat(60), (400, ""), Closed),
    ];
    all.extend(
        rows.into_iter().map(|(name, bytes, answer, connection)| attack(name, bytes, answer, connection)),
    );
    let mut bytes = mcp.replacen("tools/list", "tools/?", 1).into_bytes();
    if let Some(byte) = bytes.iter_mut().rfind(|byte| **byte == b'?') {
        *byte = 0xff;
    }
    bytes.extend(body.bytes());
    all.push(attack("a method that is not text", bytes, (400, "-32020"), Open));
}

/// Bodies that are too large, cut off or invalid, over MCP and REST.
fn bodies(token: &str, all: &mut Vec<Attack>) {
    use ConnectionState::{Closed, Open};
    let rest = "/api/v1/tools/todo/call";
    let post = |path: &str, body: &[u8]| {
        let mut bytes =
            format!("{}Content-Length: {}\r\n\r\n", head("POST", path, token), body.len()).into_bytes();
        bytes.extend(body);
        bytes
    };
    let deep = |opening: &str| opening.repeat(20_000 / opening.len());
    for (path, refused, parse) in [("/mcp", "-32600", "-32700"), (rest, "invalid_request", "invalid_request")]
    {
        for opening in ["[", "{\"a\":"] {
            all.push(attack(
                format!("{path} {opening} without end"),
                post(path, deep(opening).as_bytes()),
                (400, refused),
                Open,
            ));
        }
        all.push(attack(
            format!("{path} not UTF-8"),
            post(path, b"{\"arguments\":\"\xff\"}"),
            (400, parse),
            Open,
        ));
        all.push(attack(format!("{path} NUL"), post(path, b"{\0}"), (400, parse), Open));
        // Announces more than it sends, so that the rest is not taken for a request.
        let mut over =
            format!("{}Content-Length: {}\r\n\r\n", head("POST", path, token), 10 * BODY).into_bytes();
        over.extend([b' '; BODY + 1]);
        all.push(attack(format!("{path} over the limit"), over, (413, "too_large"), Closed));
        let mut chunked =
            format!("{}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", head("POST", path, token), BODY + 1)
                .into_bytes();
        chunked.extend([b' '; BODY + 1]);
        all.push(attack(format!("{path} over the limit in chunks"), chunked, (413, "too_large"), Closed));
        for (name, lines) in [
            ("a cut body", "Content-Length: 100\r\n\r\n{\""),
            ("a cut chunk", "Transfer-Encoding: chunked\r\n\r\n64\r\n{\""),
        ] {
            let bytes = format!("{}{lines}", head("POST", path, token));
            let cut = attack(format!("{path} {name}"), bytes.clone(), (400, "invalid_request"), Closed);
            all.push(Attack { half_closes: true, ..cut });
            all.push(attack(
                format!("{path} {name} that stays open"),
                bytes,
                (408, "deadline_exceeded"),
                Closed,
            ));
        }
        let cut = attack(format!("{path} a cut head"), head("POST", path, token), (0, ""), Closed);
        all.push(Attack { half_closes: true, ..cut });
    }
}

/// Invalid WebSocket handshakes and frames.
fn websockets(token: &str, all: &mut Vec<Attack>) {
    let upgrade = |method: &str, version: u8| {
        format!(
            "{}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: {version}\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            head(method, "/ws/events", token)
        )
    };
    all.push(attack(
        "a WebSocket of version 8",
        upgrade("GET", 8),
        (426, "invalid_request"),
        ConnectionState::Open,
    ));
    all.push(attack(
        "a WebSocket by POST",
        upgrade("POST", 13),
        (405, "invalid_request"),
        ConnectionState::Open,
    ));
    let large = [&[0x82, 0xfe, 0x40, 0x00, 0, 0, 0, 0][..], &[b'x'; 0x4000]].concat();
    let frames: [(&str, &[u8]); 7] = [
        ("a frame without a mask", b"\x81\x02hi"),
        ("a frame that says it is huge", b"\x82\xff\x00\x00\x01\x00\x00\x00\x00\x00\x01\x02\x03\x04"),
        ("a frame over the limit", &large),
        ("a reserved kind of frame", b"\x83\x80\0\0\0\0"),
        ("reserved bits", b"\xf1\x80\0\0\0\0"),
        ("a ping in parts", b"\x09\x80\0\0\0\0"),
        ("text that is none", b"\x81\x81\0\0\0\0\xff"),
    ];
    for (name, frame) in frames {
        let bytes = [upgrade("GET", 13).as_bytes(), frame].concat();
        all.push(attack(name, bytes, (101, ""), ConnectionState::WebSocketClose(1008)));
    }
}
