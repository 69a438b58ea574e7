//! Every possible mistake in a file, with its message.

use std::fmt::Write as _;

use super::{folder, plain};

/// Files with at least one mistake each.
const WRONG: &[(&str, &str)] = &[
    // Whole files.
    ("empty.json", ""),
    ("blank.json", " \n"),
    ("list.json", r#"["npx"]"#),
    ("text.json", r#""npx""#),
    ("unclosed.json", "{\n  \"command\": \"npx\",\n"),
    ("no-comma.json", "{\n  \"command\": \"npx\"\n  \"args\": []\n}"),
    ("single-quotes.json", "{ 'command': 'npx' }"),
    ("two.json", "{} {}"),
    ("twice.json", "{\n  \"command\": \"a\",\n  \"command\": \"b\"\n}"),
    ("twice-inside.json", r#"{"command": "a", "env": {"A": "1", "A": "2"}}"#),
    ("number.json", r#"{"timeout": 1e999}"#),
    ("broken.toml", "command = npx\n"),
    ("twice.toml", "command = \"a\"\ncommand = \"b\"\n"),
    ("plexus.json", r#"{"command": "npx"}"#),
    ("ü.json", r#"{"command": "npx"}"#),
    ("---.json", r#"{"command": "npx"}"#),
    // Keys.
    ("misspelt.json", r#"{"comand": "npx", "arg": []}"#),
    ("unknown.json", r#"{"command": "npx", "colour": "red"}"#),
    ("capital.json", r#"{"command": "npx", "Args": []}"#),
    ("unknown-inside.json", r#"{"command": "npx", "tools": {"alow": ["a"], "zebra": 1}}"#),
    ("of-claude.json", r#"{"command": "npx", "type": "stdio", "disabled": true}"#),
    ("of-many.json", r#"{"mcpServers": {"a": {"command": "npx"}}}"#),
    // Types.
    ("command-number.json", r#"{"command": 1}"#),
    ("args-text.json", r#"{"command": "npx", "args": "-y server"}"#),
    ("args-number.json", r#"{"command": "npx", "args": ["-p", 8080, null]}"#),
    ("env-number.json", r#"{"command": "npx", "env": {"PORT": 8080, "DEBUG": true}}"#),
    ("env-list.json", r#"{"command": "npx", "env": ["PORT=1"]}"#),
    ("headers-list.json", r#"{"url": "https://a.example", "headers": [["a", "b"]]}"#),
    ("enabled-text.json", r#"{"command": "npx", "enabled": "yes", "lazy": 1}"#),
    ("null.json", r#"{"command": null, "cwd": null}"#),
    ("tools-list.json", r#"{"command": "npx", "tools": ["a"]}"#),
    ("groups-text.json", r#"{"command": "npx", "groups": {"reading": "read_*"}}"#),
    ("many.json", r#"{"command": "npx", "max_concurrency": 0}"#),
    ("too-many.json", r#"{"command": "npx", "max_concurrency": 5000}"#),
    ("approve.json", r#"{"command": "npx", "approve": "always"}"#),
    ("naming.json", r#"{"command": "npx", "naming": "short"}"#),
    ("inject.json", r#"{"command": "npx", "inject": {"session": "sesion_id", "": "path"}}"#),
    // Transports.
    ("nothing.json", "{}"),
    ("both.json", r#"{"command": "npx", "url": "https://a.example/mcp"}"#),
    ("transport.json", r#"{"transport": "websocket", "url": "https://a.example/mcp"}"#),
    ("stdio-url.json", r#"{"transport": "stdio", "url": "https://a.example/mcp"}"#),
    ("http-command.json", r#"{"transport": "streamable_http", "command": "npx", "cwd": "/tmp"}"#),
    ("sse-missing.json", r#"{"transport": "sse"}"#),
    ("url-env.json", r#"{"url": "https://a.example/mcp", "env": {}, "args": []}"#),
    ("command-headers.json", r#"{"command": "npx", "headers": {"a": "b"}, "allow_private": true}"#),
    ("empty-command.json", r#"{"command": " "}"#),
    ("command-line.json", r#"{"command": "npx -y server"}"#),
    ("nul.json", r#"{"command": "npx", "args": ["a\u0000b"], "env": {"A": "\u0000", "B=C": "", "": ""}}"#),
    ("empty-cwd.json", r#"{"command": "npx", "cwd": ""}"#),
    ("url-words.json", r#"{"url": "not an address"}"#),
    ("url-path.json", r#"{"url": "/mcp"}"#),
    ("url-ftp.json", r#"{"url": "ftp://a.example/mcp"}"#),
    ("url-user.json", r#"{"url": "https://ann:pw@a.example/mcp"}"#),
    (
        "header-names.json",
        r#"{"url": "https://a.example", "headers": {"a b": "1", "Host": "x", "Mcp-Session-Id": "1"}}"#,
    ),
    ("header-twice.json", r#"{"url": "https://a.example", "headers": {"X-Team": "1", "x-team": "2"}}"#),
    ("header-value.json", r#"{"url": "https://a.example", "headers": {"X-Team": "a\nb"}}"#),
    // Authentication.
    ("auth-stdio.json", r#"{"command": "npx", "auth": {"type": "oauth"}}"#),
    ("auth-text.json", r#"{"url": "https://a.example", "auth": "oauth"}"#),
    ("auth-nothing.json", r#"{"url": "https://a.example", "auth": {}}"#),
    ("auth-kind.json", r#"{"url": "https://a.example", "auth": {"type": "basic", "grant": "password"}}"#),
    ("auth-kindless.json", r#"{"url": "https://a.example", "auth": {"scopes": ["read"], "clientid": "x"}}"#),
    ("auth-open.json", r#"{"url": "http://a.example", "auth": {"type": "oauth"}}"#),
    (
        "auth-header.json",
        r#"{"url": "https://a.example", "headers": {"authorization": "${env:TOKEN}"}, "auth": {"type": "oauth"}}"#,
    ),
    (
        "auth-values.json",
        r#"{"url": "https://a.example", "auth": {"type": "oauth", "scopes": ["a b", ""], "redirect_port": 0,
            "client_secret": "${env:TOKEN}", "client_metadata_url": "http://a.example/x",
            "authorization_server": "http://login.example"}}"#,
    ),
    (
        "auth-secret.json",
        r#"{"url": "https://a.example", "auth": {"type": "oauth", "client_id": "hub", "client_secret": "${env:TOKEN}"}}"#,
    ),
    (
        "auth-robot.json",
        r#"{"url": "https://a.example", "auth": {"type": "oauth", "grant": "client_credentials", "client_id": " "}}"#,
    ),
    (
        "auth-tls.json",
        r#"{"url": "http://127.0.0.1:1", "auth": {"tls": {"client_cert": "a.pem", "ca": "", "key": "b"}}}"#,
    ),
    ("auth-tls-open.json", r#"{"url": "http://127.0.0.1:1", "auth": {"tls": {"ca": "ca.pem"}}}"#),
    // Values.
    ("timeout-zero.json", r#"{"command": "npx", "timeout": 0}"#),
    ("timeout-long.json", r#"{"command": "npx", "timeout": "25h"}"#),
    ("timeout-words.json", r#"{"command": "npx", "timeout": "a while"}"#),
    ("timeout-negative.json", r#"{"command": "npx", "timeout": -1}"#),
    ("timeout-fraction.json", r#"{"command": "npx", "timeout": 1.5}"#),
    ("timeout-huge.json", r#"{"command": "npx", "timeout": "99999999999999999999h"}"#),
    ("node.json", r#"{"command": "npx", "node": "laptop"}"#),
    (
        "empty-names.json",
        r#"{"command": "npx", "tools": {"allow": [""], "deny": ["a", ""]}, "groups": {"*": ["a"], "b": [""]}}"#,
    ),
    ("rename.json", r#"{"command": "npx", "tools": {"rename": {"a": "x", "b": "x", "c": "", "d*": "y"}}}"#),
    // References.
    ("unset.json", r#"{"command": "npx", "env": {"A": "${env:MISSING}", "B": "${env:EMPTY}"}}"#),
    ("no-file.json", r#"{"url": "https://a.example", "headers": {"X-Key": "${file:missing.txt}"}}"#),
    ("old-style.json", r#"{"command": "npx", "args": ["${HOME}/x", "a${"]}"#),
    ("input.json", r#"{"command": "npx", "env": {"KEY": "${input:key}"}}"#),
    ("vault.json", r#"{"command": "npx", "env": {"KEY": "${secret:key}"}}"#),
    ("filled-in.json", r#"{"transport": "${env:TOKEN}", "command": "npx"}"#),
    ("unset-transport.json", r#"{"transport": "${env:MISSING}", "command": "npx"}"#),
    // Several at once, at all levels.
    (
        "several.json",
        r#"{"comand": "npx", "url": 1, "env": {"A": "${env:MISSING}"}, "timeout": "x", "node": "n", "tools": {"alow": []}}"#,
    ),
    ("several.toml", "transport = \"stdoi\"\nargs = \"x\"\n[tools]\nallow = [1]\n"),
];

#[test]
fn every_mistake_is_reported_with_field_and_fix() {
    let mut messages = String::new();
    for (file, text) in WRONG {
        let (dir, folder) = folder(&[(file, text)]);
        let entries = folder.read();
        let [entry] = entries.as_slice() else { panic!("{file}: {entries:?}") };
        let problems = entry.server.as_ref().expect_err(file);
        assert!(!problems.is_empty(), "{file} is refused for nothing");
        for problem in problems {
            let _ = writeln!(messages, "{}", plain(dir.path(), &problem.to_string()));
        }
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn unreadable_files_are_reported() {
    let (dir, folder) = folder(&[("long.json", &"x".repeat(300 * 1024))]);
    let path = dir.path();
    std::fs::write(path.join("latin.json"), b"{\"command\": \"caf\xe9\"}").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path.join("link.json")).unwrap();
    std::os::unix::fs::symlink("nowhere", path.join("dangling.toml")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path.join("socket.json")).unwrap();
    let messages: Vec<String> = folder
        .read()
        .iter()
        .flat_map(|entry| entry.server.as_ref().unwrap_err())
        .map(|problem| plain(path, &problem.to_string()))
        .collect();
    assert_eq!(
        messages,
        [
            "dangling.toml: is a symbolic link; replace it with a regular file",
            "latin.json: is not UTF-8: byte 16 is not part of a valid character; save it as UTF-8",
            "link.json: is a symbolic link; replace it with a regular file",
            "long.json: is longer than 256 KiB; shorten it",
            "socket.json: is not a regular file; replace it with a regular file",
        ]
    );
}

#[test]
fn reserved_headers_are_refused_in_any_case() {
    for header in ["Expect", "UPGRADE", "content-encoding", "Mcp-Param-Region", "TE"] {
        let text = format!(r#"{{"url": "https://a.example", "headers": {{"{header}": "x"}}}}"#);
        let (_dir, folder) = folder(&[("own.json", &text)]);
        let entries = folder.read();
        let problems = entries[0].server.as_ref().expect_err(header);
        assert!(problems.iter().any(|problem| problem.to_string().contains("sets itself")), "{header}");
    }
}
