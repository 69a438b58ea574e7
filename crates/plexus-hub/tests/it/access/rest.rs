//! HTTP routes.

use std::collections::BTreeSet;

use plexus_proto::api::TokenKind;
use plexus_testkit::TestHub;
use reqwest::Method;
use serde_json::{Value, json};

use super::tokens::{Tokens, mint};
use super::{Needs, Row};

/// An MCP server behind the hub.
const SERVER: &str = "other";

/// Resources of another subject that a request can name.
struct ForeignResources {
    session: String,
    call: String,
    token: String,
    key: String,
}

impl ForeignResources {
    async fn of(hub: &TestHub) -> Self {
        let owner = mint(hub, TokenKind::User, "owner", &["call:todo"]).await;
        let call = hub.http().post(hub.url("/api/v1/tools/todo/call")).bearer_auth(&owner.token);
        let call = call.json(&json!({ "arguments": { "action": "list" } })).send().await.unwrap();
        let call: Value = call.json().await.unwrap();
        let keys = hub.api("/api/v1/keys").await;
        // One row removes the server, so it may already exist or be gone.
        let server =
            json!({ "name": SERVER, "server": { "url": "http://127.0.0.1:9/mcp", "enabled": false } });
        let server =
            hub.http().post(hub.url("/api/v1/upstreams")).bearer_auth(hub.admin_token()).json(&server);
        assert!(
            [201, 409].contains(&server.send().await.unwrap().status().as_u16()),
            "cannot add the server"
        );
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("not text: {value}")).to_owned();
        Self {
            session: text(&call["session_id"]),
            call: text(&call["call_id"]),
            token: owner.jti.to_string(),
            key: text(&keys["items"][0]["kid"]),
        }
    }
}

/// Routes described in OpenAPI: method, path, body, requirement.
fn described() -> Vec<(Method, &'static str, Option<Value>, Needs)> {
    use Needs::{Nothing, Scope, Token};
    let none = || None;
    let some = |body: Value| Some(body);
    vec![
        (Method::GET, "/api/v1/openapi.json", none(), Nothing(200)),
        (Method::GET, "/api/v1/status", none(), Scope("read:status", 403, 200)),
        (Method::GET, "/api/v1/config", none(), Scope("read:config", 403, 200)),
        (Method::GET, "/api/v1/context", none(), Token(200)),
        (Method::GET, "/api/v1/external-agents", none(), Scope("read:agents", 403, 200)),
        (Method::GET, "/api/v1/external-agents/instructions", none(), Scope("read:agents", 403, 200)),
        (Method::POST, "/api/v1/external-agents/sync", some(json!({})), Scope("admin", 403, 200)),
        (
            Method::PATCH,
            "/api/v1/external-agents/{id}",
            some(json!({ "paused": true })),
            // No agent is connected to this hub.
            Scope("admin", 403, 404),
        ),
        (Method::DELETE, "/api/v1/external-agents/{id}", none(), Scope("admin", 403, 404)),
        (Method::GET, "/api/v1/profiles", none(), Scope("read:profiles", 403, 200)),
        (Method::GET, "/api/v1/profiles/{id}", none(), Scope("read:profiles", 403, 200)),
        (Method::GET, "/api/v1/audit", none(), Scope("read:audit", 403, 200)),
        (Method::GET, "/api/v1/audit/verify", none(), Scope("read:audit", 403, 200)),
        (Method::GET, "/api/v1/audit/{call_id}", none(), Scope("read:audit", 403, 200)),
        (Method::GET, "/api/v1/events/stream", none(), Token(200)),
        (Method::GET, "/api/v1/sessions", none(), Token(200)),
        (Method::POST, "/api/v1/sessions", some(json!({})), Token(201)),
        (Method::GET, "/api/v1/sessions/stats", none(), Token(200)),
        (Method::GET, "/api/v1/sessions/{id}/stats", none(), Scope("read:sessions", 404, 200)),
        // Another subject's sessions do not exist for callers without the scope.
        (Method::GET, "/api/v1/sessions/{id}", none(), Scope("read:sessions", 404, 200)),
        (Method::GET, "/api/v1/sessions/{id}/events", none(), Scope("read:sessions", 404, 200)),
        (Method::GET, "/api/v1/sessions/{id}/events/stream", none(), Scope("read:sessions", 404, 200)),
        (
            Method::POST,
            "/api/v1/sessions/{id}/events",
            some(json!({ "events": [{ "kind": "notification", "payload": {} }] })),
            Scope("write:sessions", 403, 200),
        ),
        (
            Method::POST,
            "/api/v1/outbox/letters",
            some(json!({ "client": "c", "letters": [
                { "key": "k", "tool": "todo", "reason": "", "occurred_at": "2026-11-18T06:00:00Z", "attempts": 1 },
            ] })),
            Token(200),
        ),
        (Method::GET, "/api/v1/tools", none(), Token(200)),
        (Method::GET, "/api/v1/tools/cost", none(), Token(200)),
        (Method::GET, "/api/v1/tools/{name}", none(), Scope("call:todo", 404, 200)),
        (
            Method::POST,
            "/api/v1/tools/{name}/call",
            some(json!({ "arguments": { "action": "list" } })),
            Scope("call:todo", 404, 200),
        ),
        (Method::GET, "/api/v1/tools/-/defined", none(), Scope("admin", 403, 200)),
        // No user-defined tool has this name.
        (Method::POST, "/api/v1/tools/{name}/enable", none(), Scope("admin", 403, 404)),
        (Method::POST, "/api/v1/tools/{name}/disable", none(), Scope("admin", 403, 404)),
        (Method::POST, "/api/v1/tools/{name}/test", some(json!({})), Scope("admin", 403, 404)),
        (Method::GET, "/api/v1/upstreams", none(), Scope("read:upstreams", 403, 200)),
        // Non-admins see only servers whose tools they can see.
        (Method::GET, "/api/v1/upstreams/{server}", none(), Scope("read:upstreams", 403, 404)),
        (Method::GET, "/api/v1/upstreams/{server}/logs", none(), Scope("admin", 403, 200)),
        (Method::GET, "/api/v1/upstreams/{server}/pending", none(), Scope("admin", 403, 200)),
        // A disabled server has no pending tools; callers who may not approve do not learn that.
        (
            Method::POST,
            "/api/v1/upstreams/{server}/approve",
            some(json!({ "tools": [{ "name": "x", "hash": "0".repeat(64) }] })),
            Scope("admin", 403, 409),
        ),
        (
            Method::POST,
            "/api/v1/upstreams",
            some(json!({ "name": "new", "server": { "url": "http://127.0.0.1:9/mcp", "enabled": false } })),
            Scope("admin", 403, 201),
        ),
        (
            Method::POST,
            "/api/v1/upstreams/-/import",
            some(json!({ "file_name": "x.json", "content": "{\"mcpServers\":{}}", "dry_run": true })),
            Scope("admin", 403, 200),
        ),
        (Method::POST, "/api/v1/upstreams/-/reload", none(), Scope("admin", 403, 200)),
        (Method::POST, "/api/v1/upstreams/{server}/test", some(json!({})), Scope("admin", 403, 200)),
        // The server has no authorization server.
        (
            Method::POST,
            "/api/v1/upstreams/{server}/login",
            some(json!({ "redirect_uri": "http://127.0.0.1:9/callback" })),
            Scope("admin", 403, 503),
        ),
        (Method::POST, "/api/v1/upstreams/{server}/login/{login}", some(json!({})), Scope("admin", 403, 404)),
        (Method::POST, "/api/v1/upstreams/{server}/logout", none(), Scope("admin", 403, 200)),
        (Method::POST, "/api/v1/upstreams/{server}/restart", none(), Scope("admin", 403, 200)),
        (Method::POST, "/api/v1/upstreams/{server}/disable", none(), Scope("admin", 403, 200)),
        (Method::POST, "/api/v1/upstreams/{server}/enable", none(), Scope("admin", 403, 200)),
        (Method::DELETE, "/api/v1/upstreams/{server}", none(), Scope("admin", 403, 200)),
        (Method::GET, "/api/v1/nodes", none(), Scope("read:nodes", 403, 200)),
        (Method::GET, "/api/v1/nodes/invites", none(), Scope("read:nodes", 403, 200)),
        (
            Method::POST,
            "/api/v1/nodes/invites",
            some(json!({ "name": "new" })),
            Scope("manage:nodes", 403, 201),
        ),
        // There is no invitation for this name.
        (Method::DELETE, "/api/v1/nodes/invites/{name}", none(), Scope("manage:nodes", 403, 404)),
        // The route expects a code, not a token.
        (Method::POST, "/api/v1/nodes/join", some(json!({ "code": "none" })), Nothing(401)),
        (Method::POST, "/api/v1/nodes/{id}/credential", none(), Needs::Node(201)),
        (Method::GET, "/api/v1/nodes/{node}", none(), Scope("read:nodes", 403, 200)),
        (
            Method::PATCH,
            "/api/v1/nodes/{node}",
            some(json!({ "draining": true })),
            Scope("manage:nodes", 403, 200),
        ),
        (Method::DELETE, "/api/v1/nodes/{node}", none(), Scope("manage:nodes", 403, 200)),
        (Method::GET, "/api/v1/tokens", none(), Scope("read:tokens", 403, 200)),
        (Method::GET, "/api/v1/tokens/self", none(), Token(200)),
        (Method::GET, "/api/v1/tokens/{jti}", none(), Scope("read:tokens", 404, 200)),
        (
            Method::POST,
            "/api/v1/tokens",
            some(json!({ "kind": "agent", "name": "only", "scopes": ["token:create"] })),
            Scope("token:create", 403, 201),
        ),
        (Method::POST, "/api/v1/tokens/renew", none(), Token(201)),
        (Method::POST, "/api/v1/tokens/{jti}/rotate", some(json!({})), Scope("admin", 404, 201)),
        (Method::DELETE, "/api/v1/tokens/{jti}", none(), Scope("token:revoke", 404, 200)),
        (Method::GET, "/api/v1/keys", none(), Scope("admin", 403, 200)),
        // The current key cannot be retired; callers who may not retire keys do not learn that.
        (Method::POST, "/api/v1/keys/{kid}/retire", none(), Scope("admin", 403, 409)),
        (Method::POST, "/api/v1/keys/rotate", some(json!({})), Scope("admin", 403, 200)),
    ]
}

#[tokio::test]
async fn described_routes_answer_each_token_as_stated() {
    let hub = TestHub::start().await;
    let document: Value = hub.api("/api/v1/openapi.json").await;
    let operations = |path: &str, item: &Value| -> Vec<String> {
        item.as_object().unwrap().keys().map(|method| format!("{} {path}", method.to_uppercase())).collect()
    };
    let expected: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| operations(path, item))
        .collect();
    let stated: BTreeSet<String> =
        described().iter().map(|(method, path, ..)| format!("{method} {path}")).collect();
    assert_eq!(stated, expected, "the table and the API differ");

    for (method, path, body, needs) in described() {
        // Use fresh tokens and resources for each row, because some rows delete theirs.
        let (tokens, foreign) = (Tokens::of(&hub).await, ForeignResources::of(&hub).await);
        let path = path
            .replace("/profiles/{id}", "/profiles/discuss")
            .replace("/external-agents/{id}", "/external-agents/local:codex")
            .replace("/nodes/{id}", &format!("/nodes/{}", tokens.node.node_id))
            .replace("{node}", &tokens.node.name)
            .replace("{id}", &foreign.session)
            .replace("{call_id}", &foreign.call)
            .replace("{jti}", &foreign.token)
            .replace("{kid}", &foreign.key)
            .replace("{server}", SERVER)
            .replace("{name}", "todo");
        Row { method, path, body, headers: vec![], needs }.check(&hub, &tokens).await;
    }
}

#[tokio::test]
async fn undescribed_routes_answer_each_token_as_stated() {
    use Needs::{Nothing, Scope, Token};
    let hub = TestHub::start().await;
    let (tokens, foreign) = (Tokens::of(&hub).await, ForeignResources::of(&hub).await);
    let websocket = || {
        ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"]
            .map(|header| header.split_once(": ").unwrap())
            .map(|(name, value)| (name, value.to_owned()))
            .into_iter()
            // Any sixteen bytes.
            .chain([("sec-websocket-key", "MDEyMzQ1Njc4OWFiY2RlZg==".to_owned())])
            .collect::<Vec<_>>()
    };
    let rows = [
        ("/", vec![], Nothing(200)),
        ("/healthz", vec![], Nothing(200)),
        ("/readyz", vec![], Nothing(200)),
        ("/.well-known/oauth-protected-resource", vec![], Nothing(404)),
        ("/.well-known/oauth-protected-resource/mcp", vec![], Nothing(404)),
        ("/nothing", vec![], Nothing(404)),
        ("/api/v1/nothing", vec![], Nothing(404)),
        ("/metrics", vec![], Scope("read:metrics", 403, 200)),
        ("/ws/events", websocket(), Token(101)),
        ("/ws/sessions/{id}", websocket(), Scope("read:sessions", 404, 101)),
        // A link does not exist before its first frame.
        ("/api/v1/nodes/{id}/frames?epoch=1&after=0", vec![], Needs::Node(410)),
        ("/ws/nodes/{id}", websocket(), Needs::Node(101)),
    ];
    for (path, headers, needs) in rows {
        let node = format!("/nodes/{}", tokens.node.node_id);
        let path = path.replace("/nodes/{id}", &node).replace("{id}", &foreign.session);
        Row { method: Method::GET, path, body: None, headers, needs }.check(&hub, &tokens).await;
    }
}
