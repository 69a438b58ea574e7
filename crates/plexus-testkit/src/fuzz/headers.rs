//! Headers and their consistency with the body: who is admitted, and whether headers and body agree.
//!
//! An input looks like a request: `POST /mcp`, header lines, an empty line, the body. In it, `$TOKEN` and
//! `$SESSION` are replaced by real values. Framing headers are removed, so that every request is answered. Admitted
//! requests are checked against an independent implementation of the rules.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Target;
use super::wire::{Reply, Wire};

const PATHS: [&str; 8] = [
    "/mcp",
    "/mcp/v1/",
    "/api/v1/tools",
    "/api/v1/tokens",
    "/api/v1/tools/todo/call",
    "/api/v1/events/stream",
    "/ws/events",
    "/healthz",
];
/// Paths without authentication.
const OPEN: [&str; 1] = ["/healthz"];
/// Headers that define the end of a request or the fate of the connection.
const FRAMING: [&str; 7] =
    ["content-length", "transfer-encoding", "connection", "expect", "upgrade", "te", "trailer"];
/// hyper accepts at most 100.
const MAX_HEADERS: usize = 60;
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Number of inputs before the hub is replaced by a new one.
const RENEW: u32 = 20_000;

pub struct HeadersTarget {
    wire: Wire,
    token: String,
    session: String,
    left: u32,
}

struct Request<'a> {
    method: String,
    path: &'static str,
    headers: Vec<(String, Vec<u8>)>,
    body: &'a [u8],
}

impl Target for HeadersTarget {
    const NAME: &'static str = "headers";

    fn start() -> Self {
        let wire = Wire::start();
        let hub = wire.hub();
        let (token, session) = wire.wait(async {
            let token = hub.token("fuzz", &["call:*"]).await.token;
            let (client, _) = hub.mcp(&token).initialize("2025-11-25").await;
            (token, client.session_id().expect("a session").to_owned())
        });
        Self { wire, token, session, left: RENEW }
    }

    fn run(&mut self, input: &[u8]) {
        if self.left == 0 {
            *self = Self::start();
        }
        self.left -= 1;
        let request = self.request(input);
        let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path).into_bytes();
        for (name, value) in &request.headers {
            head.extend(name.bytes().chain(*b": ").chain(value.iter().copied()).chain(*b"\r\n"));
        }
        let reply = self.wire.ask(&head, request.body);
        if reply.status < 400 {
            self.check(&request, &reply);
        }
        // Open a new session for later inputs.
        if reply.status == 204 && request.method == "DELETE" {
            let (hub, token) = (self.wire.hub(), &self.token);
            let (client, _) = self.wire.wait(async { hub.mcp(token).initialize("2025-11-25").await });
            self.session = client.session_id().expect("a session").to_owned();
        }
    }
}

impl std::fmt::Debug for HeadersTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeadersTarget").field("left", &self.left).finish_non_exhaustive()
    }
}

impl HeadersTarget {
    /// The request of an input, without the parts that the HTTP layer would refuse.
    fn request<'a>(&self, input: &'a [u8]) -> Request<'a> {
        let end = input.windows(2).position(|two| two == b"\n\n");
        let (head, body) = end.map_or((input, &b""[..]), |end| (&input[..end], &input[end + 2..]));
        let mut lines = head.split(|byte| *byte == b'\n');
        let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let (method, path) = first.split_once(' ').unwrap_or(("POST", &first));
        let is_method = |method: &str| {
            (1..=12).contains(&method.len())
                && method.bytes().all(|byte| byte.is_ascii_uppercase())
                && method != "CONNECT"
        };
        let headers = lines.filter_map(|line| self.header(line)).take(MAX_HEADERS);
        Request {
            method: if is_method(method) { method.to_owned() } else { "POST".to_owned() },
            path: PATHS.into_iter().find(|known| *known == path).unwrap_or(PATHS[0]),
            headers: headers.collect(),
            body,
        }
    }

    fn header(&self, line: &[u8]) -> Option<(String, Vec<u8>)> {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = String::from_utf8(line[..colon].to_ascii_lowercase()).ok()?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) || FRAMING.contains(&name.as_str()) {
            return None;
        }
        let value = line[colon + 1..]
            .iter()
            .copied()
            .filter(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 127));
        let mut value: Vec<u8> = value.collect();
        for (placeholder, actual) in [("$TOKEN", &self.token), ("$SESSION", &self.session)] {
            if let Some(at) = value.windows(placeholder.len()).position(|part| part == placeholder.as_bytes())
            {
                value.splice(at..at + placeholder.len(), actual.bytes());
            }
        }
        Some((name, value))
    }

    /// Checks a request that was admitted.
    fn check(&self, request: &Request<'_>, reply: &Reply) {
        let context = || {
            let headers = request
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)));
            let headers: Vec<String> = headers.collect();
            let body = String::from_utf8_lossy(request.body);
            format!("{} {} {headers:?} {body:?} was answered with {reply:?}", request.method, request.path)
        };
        let host = request.only("host").unwrap_or_else(|| panic!("not one Host: {}", context()));
        let (name, port) = split_port(&host);
        let address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        assert!(
            is_port && (address || name.eq_ignore_ascii_case("localhost")),
            "another's Host: {}",
            context()
        );
        if request.count("origin") > 0 {
            let origin = request.only("origin").unwrap_or_else(|| panic!("not one Origin: {}", context()));
            let of = origin
                .split_once("://")
                .filter(|(scheme, _)| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)));
            let authority = of.map_or("", |(_, rest)| rest.trim_end_matches('/'));
            let (name, _) = split_port(authority);
            let loopback = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
            let ours = loopback || name.eq_ignore_ascii_case("localhost") || authority == host;
            assert!(ours, "another's Origin: {}", context());
        }
        if OPEN.contains(&request.path) || request.method == "OPTIONS" {
            return;
        }
        // The header, or for a WebSocket a subprotocol, which these inputs never reach.
        let bearer = request.only("authorization").unwrap_or_else(|| panic!("not one token: {}", context()));
        let token = bearer
            .get(..7)
            .filter(|scheme| scheme.eq_ignore_ascii_case("bearer "))
            .map(|_| bearer[7..].trim());
        assert_eq!(token, Some(self.token.as_str()), "{}", context());
        if request.path.starts_with("/mcp") && request.method == "POST" && reply.status == 200 {
            request.check_stateless(reply, &context);
        }
    }
}

fn split_port(authority: &str) -> (&str, &str) {
    authority.rsplit_once(':').filter(|_| !authority.ends_with(']')).unwrap_or((authority, ""))
}

impl Request<'_> {
    fn count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(known, _)| known == name).count()
    }

    /// The value of a header that appears once and is plain text.
    fn only(&self, name: &str) -> Option<String> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let (value, more) = (values.next()?, values.next());
        let text = String::from_utf8(value.1.clone()).ok().filter(|text| text.is_ascii())?;
        more.is_none().then(|| text.trim_matches([' ', '\t']).to_owned())
    }

    /// Checks that the headers of a successful 2026-07-28 request match its body.
    fn check_stateless(&self, reply: &Reply, context: &impl Fn() -> String) {
        let body: Value = serde_json::from_slice(self.body).unwrap_or_default();
        let version = body["params"]["_meta"][META_VERSION].as_str();
        if version != Some("2026-07-28") || reply.is_stream() || reply.json().get("result").is_none() {
            return;
        }
        assert_eq!(self.only("mcp-protocol-version").as_deref(), version, "{}", context());
        assert_eq!(self.only("mcp-method").as_deref(), body["method"].as_str(), "{}", context());
        if body["method"] == "tools/call" {
            let name = self.only("mcp-name").unwrap_or_default();
            let encoded = name.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
            let decoded = encoded.map(|encoded| STANDARD.decode(encoded).unwrap_or_default());
            let decoded = decoded.unwrap_or_else(|| name.clone().into_bytes());
            assert_eq!(
                Some(decoded.as_slice()),
                body["params"]["name"].as_str().map(str::as_bytes),
                "{}",
                context()
            );
        }
    }
}
