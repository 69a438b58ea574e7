//! Valid files and the resulting servers.

use std::path::Path;
use std::time::Duration;

use plexus_kit::ExposeSecret;
use plexus_proto::api::UpstreamTransport::{self, Sse, Stdio, StreamableHttp};

use super::super::{Approve, Grant, HttpConfig, Inject, ServerConfig, StdioConfig, Transport, schema_file};
use super::{folder, server};

fn stdio(server: &ServerConfig) -> &StdioConfig {
    match &server.transport {
        Transport::Stdio(stdio) => stdio,
        other => panic!("{other:?}"),
    }
}

fn http(server: &ServerConfig) -> &HttpConfig {
    match &server.transport {
        Transport::Sse(http) | Transport::StreamableHttp(http) => http,
        other @ Transport::Stdio(_) => panic!("{other:?}"),
    }
}

#[test]
fn transport_is_derived_from_the_keys() {
    let cases: &[(&str, UpstreamTransport)] = &[
        (r#"{"command": "npx"}"#, Stdio),
        (r#"{"transport": "stdio", "command": "npx"}"#, Stdio),
        (r#"{"url": "https://a.example/mcp"}"#, StreamableHttp),
        (r#"{"url": "https://a.example"}"#, StreamableHttp),
        (r#"{"url": "http://127.0.0.1:8080/sse"}"#, Sse),
        (r#"{"url": "https://a.example/v1/sse/?a=b"}"#, Sse),
        (r#"{"url": "https://a.example/mcp?next=/sse"}"#, StreamableHttp),
        (r#"{"url": "https://a.example/sse", "transport": "streamable_http"}"#, StreamableHttp),
        (r#"{"url": "https://a.example/mcp", "transport": "${env:KIND}"}"#, Sse),
    ];
    for (text, kind) in cases {
        assert_eq!(server("a.json", text).transport.kind(), *kind, "{text}");
    }
}

#[test]
fn json_with_comments_and_toml_are_equivalent() {
    let json = r#"{
        // The schema is for editors.
        "$schema": "https://plexus.example/${schema}",
        "command": "uvx", /* with uv */
        "args": ["mcp-server-git", "--verbose",],
        "env": { "GIT_TOKEN": "${env:TOKEN}", "A": "$${b}" },
        "cwd": "~/work",
        "groups": { "reading": ["git_log", "git_show*"] },
        "instructions": "Use it with care.",
        "enabled": true,
        "tools": { "allow": ["git_*"], "deny": ["git_reset"], "rename": { "git_log": "log" }, "idempotent": ["git_log"] },
        "timeout": "5m",
        "max_concurrency": 4,
        "lazy": true,
        "per_session": true,
        "naming": "bare",
        "approve": "manual",
        "inject": { "repo_path": "path", "session": "session_id", "out": "session_files" },
    }"#;
    let toml = r#"
        command = "uvx"
        args = ["mcp-server-git", "--verbose"]
        cwd = "~/work"
        instructions = "Use it with care."
        timeout = 300
        max_concurrency = 4
        lazy = true
        per_session = true
        naming = "bare"
        approve = "manual"
        env = { GIT_TOKEN = "${env:TOKEN}", A = "$${b}" }
        groups = { reading = ["git_log", "git_show*"] }
        inject = { repo_path = "path", session = "session_id", out = "session_files" }
        [tools]
        allow = ["git_*"]
        deny = ["git_reset"]
        rename = { git_log = "log" }
        idempotent = ["git_log"]
    "#;
    let (from_json, from_toml) = (server("my git.json", json), server("my git.toml", toml));
    for server in [&from_json, &from_toml] {
        let StdioConfig { command, args, env, cwd } = stdio(server);
        assert_eq!((server.name.as_str(), server.slug.as_str()), ("my git", "my_git"));
        assert_eq!((command.as_str(), args.len()), ("uvx", 2));
        assert_eq!(env["GIT_TOKEN"].expose_secret(), "value-of-token");
        assert_eq!(env["A"].expose_secret(), "${b}");
        assert_eq!(cwd.as_deref(), Some(Path::new("/home/ann/work")));
        assert_eq!((server.timeout, server.max_concurrency), (Duration::from_secs(300), Some(4)));
        assert!(server.enabled && server.lazy && server.per_session && server.bare_names);
        assert_eq!((server.inject["repo_path"], server.approve), (Inject::Path, Approve::Manual));
        assert_eq!(server.groups_of("git_show_all").collect::<Vec<_>>(), ["reading"]);
        let tools = &server.tools;
        assert!(tools.admit("git_log") && !tools.admit("git_reset") && !tools.admit("other"));
        assert_eq!((tools.name_of("git_log"), tools.name_of("git_show")), ("log", "git_show"));
        assert!(tools.is_idempotent("git_log") && !tools.is_idempotent("git_show"));
    }
    assert_eq!(from_json.fingerprint, from_toml.fingerprint);
    assert_eq!(from_json.presentation, from_toml.presentation);
}

#[test]
fn missing_keys_have_defaults() {
    let server = server("a.json", r#"{"command": "npx"}"#);
    assert!(server.enabled && !server.lazy && !server.per_session && !server.bare_names);
    assert_eq!((server.timeout, server.max_concurrency), (Duration::from_secs(120), None));
    assert_eq!(server.approve, Approve::Tofu);
    assert!(server.tools.admit("anything") && server.warnings.is_empty());
    assert!(stdio(&server).env.is_empty() && stdio(&server).cwd.is_none());
}

#[test]
fn relative_paths_are_resolved() {
    let (dir, folder) = folder(&[
        ("a.json", r#"{"command": "./bin/server"}"#),
        ("b.json", r#"{"command": "bin/server", "cwd": "."}"#),
        ("c.json", r#"{"command": "~/bin/server", "cwd": "/"}"#),
        ("d.json", r#"{"command": "/opt/my server/run"}"#),
        ("e.json", r#"{"url": "https://a.example", "headers": {"X-Key": "${file:sub/key}"}}"#),
    ]);
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    std::fs::write(dir.path().join("sub/key"), "from-a-file\n").unwrap();
    let servers: Vec<_> = folder.read().into_iter().map(|entry| entry.server.unwrap()).collect();
    let here = dir.path().display();
    let commands: Vec<_> = servers[..4].iter().map(|server| stdio(server).command.clone()).collect();
    let expected = [
        format!("{here}/bin/server"),
        format!("{here}/bin/server"),
        "/home/ann/bin/server".to_owned(),
        "/opt/my server/run".to_owned(),
    ];
    assert_eq!(commands, expected);
    assert_eq!(http(&servers[4]).headers["x-key"].expose_secret(), "from-a-file");
}

#[test]
fn timeouts_accept_every_unit() {
    for (written, millis) in [
        ("30", 30_000),
        ("\"30\"", 30_000),
        ("\"30s\"", 30_000),
        ("\"2m\"", 120_000),
        ("\" 2 min \"", 120_000),
        ("\"1h\"", 3_600_000),
        ("\"500ms\"", 500),
        ("\"24h\"", 86_400_000),
    ] {
        let server = server("a.json", &format!(r#"{{"command": "npx", "timeout": {written}}}"#));
        assert_eq!(server.timeout, Duration::from_millis(millis), "{written}");
    }
}

/// Only settings that a process was started with require a restart.
#[test]
fn only_process_settings_change_the_fingerprint() {
    let base = server("a.json", r#"{"command": "npx", "env": {"A": "1"}}"#);
    for text in [
        r#"{"command": "npx", "env": {"A": "2"}}"#,
        r#"{"command": "npx", "env": {"A": "1", "B": ""}}"#,
        r#"{"command": "npx", "env": {"A": "1"}, "args": [""]}"#,
        r#"{"command": "npm", "env": {"A": "1"}}"#,
        r#"{"command": "npx", "env": {"A": "1"}, "cwd": "/"}"#,
        r#"{"command": "npx", "env": {"A": "1"}, "per_session": true}"#,
        r#"{"url": "https://a.example"}"#,
    ] {
        assert_ne!(server("a.json", text).fingerprint, base.fingerprint, "{text}");
    }
    for more in [
        r#""timeout": 5"#,
        r#""groups": {"a": ["b"]}"#,
        r#""instructions": "x""#,
        r#""tools": {"deny": ["x"]}"#,
        r#""naming": "bare""#,
        r#""approve": "auto""#,
        r#""max_concurrency": 1"#,
        r#""lazy": true"#,
        r#""inject": {"a": "path"}"#,
    ] {
        let changed = server("a.json", &format!(r#"{{"command": "npx", "env": {{"A": "1"}}, {more}}}"#));
        assert_eq!(changed.fingerprint, base.fingerprint, "{more}");
        assert_ne!(changed.presentation, base.presentation, "{more}");
    }
    let again = server("a.json", r#"{"env": {"A": "1"}, "command": "npx", "enabled": false}"#);
    assert_eq!((again.fingerprint, again.presentation), (base.fingerprint, base.presentation));
}

/// A user who disables a server because a value is missing should not be told that the file is invalid.
#[test]
fn missing_value_is_a_warning_while_disabled() {
    let server = server("a.json", r#"{"command": "npx", "env": {"A": "${env:MISSING}"}, "enabled": false}"#);
    assert!(!server.enabled);
    assert_eq!(
        server.warnings,
        [
            "a.json: `env.A` needs the variable MISSING, which is not set or empty; set it where the hub is started and \
          restart the hub, give a default as in `${env:MISSING:-default}`, or use `${file:PATH}`"
        ]
    );
}

#[test]
fn committed_schema_matches_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/mcp-server.schema.json");
    let current = schema_file();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "docs/schema/mcp-server.schema.json does not match the types; review the change after\n  make generated"
    );
    let schema: serde_json::Value = serde_json::from_str(&current).unwrap();
    for (key, field) in schema["properties"].as_object().unwrap() {
        assert!(
            field["description"].as_str().is_some_and(|text| text.len() > 10),
            "{key} has no description"
        );
    }
}

#[test]
fn authentication_settings_are_read() {
    let text = r#"{
        "url": "https://a.example/mcp",
        "auth": {
            "type": "oauth",
            "grant": "client_credentials",
            "scopes": ["files:read"],
            "client_id": "hub",
            "client_secret": "${env:TOKEN}",
            "authorization_server": "https://login.example/tenant",
            "tls": { "client_cert": "hub.pem", "client_key": "~/hub.key" }
        }
    }"#;
    let full = server("a.json", text);
    let auth = &http(&full).auth;
    let oauth = auth.oauth.as_ref().unwrap();
    assert_eq!(oauth.client_secret.as_ref().unwrap().expose_secret(), "value-of-token");
    assert_eq!(
        (oauth.grant, oauth.scopes.as_slice()),
        (Grant::ClientCredentials, &["files:read".to_owned()][..])
    );
    let (cert, key) = auth.tls.as_ref().unwrap().identity.clone().unwrap();
    assert!(cert.is_absolute() && cert.ends_with("hub.pem"), "{cert:?}");
    assert_eq!(key, Path::new("/home/ann/hub.key"));
    assert_eq!(full.warnings.len(), 2, "both files are missing: {:?}", full.warnings);
    assert!(!format!("{full:?} {auth:?}").contains("value-of-token"));

    // Every change of the authentication requires a restart, except of the redirect port.
    let plain = server("a.json", r#"{"url": "https://a.example/mcp", "auth": {"type": "oauth"}}"#);
    let port = r#"{"url": "https://a.example/mcp", "auth": {"type": "oauth", "redirect_port": 8123}}"#;
    let port = server("a.json", port);
    assert_eq!(port.fingerprint, plain.fingerprint);
    assert_ne!(port.presentation, plain.presentation, "but the change is noticed");
    for other in [
        r#"{"type": "oauth", "scopes": ["a"]}"#,
        r#"{"type": "oauth", "client_id": "a"}"#,
        r#"{"tls": {"ca": "x"}}"#,
    ] {
        let text = format!(r#"{{"url": "https://a.example/mcp", "auth": {other}}}"#);
        assert_ne!(server("a.json", &text).fingerprint, plain.fingerprint, "{other}");
    }
    assert_eq!(http(&plain).auth.oauth.as_ref().unwrap().grant, Grant::AuthorizationCode);
}
