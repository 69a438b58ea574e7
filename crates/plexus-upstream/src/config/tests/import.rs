//! Import of files in the formats of other programs.

use std::os::unix::fs::PermissionsExt as _;

use plexus_kit::Clock;
use serde_json::{Value, json};

use super::super::{Folder, ImportPlan, PlannedServer, ThisHub, migrate};
use super::{folder, plain};

fn plan(folder: &Folder, text: &str) -> ImportPlan {
    folder.import("theirs.json", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Name and document of each planned server.
fn documents(plan: &ImportPlan) -> Value {
    plan.servers
        .iter()
        .map(|server| (server.name.clone(), server.shown()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn skipped(folder: &Folder, plan: &ImportPlan) -> Vec<String> {
    plan.skipped.iter().map(|skipped| plain(folder.dir(), &skipped.to_string())).collect()
}

#[test]
fn claude_code_file_is_imported() {
    let (_dir, folder) = folder(&[("git.json", r#"{"command": "npx"}"#)]);
    let plan = plan(
        &folder,
        r#"{
          "numStartups": 7,
          "mcpServers": {
            "filesystem": {
              "type": "stdio",
              "command": "npx",
              "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/work", "$HOME"],
              "env": {}
            },
            "api": {
              "type": "http",
              "url": "${API_BASE:-https://api.example.com}/mcp",
              "headers": { "Authorization": "Bearer ${TOKEN}" },
              "oauth": { "clientId": "x" },
              "timeout": 600000
            },
            "events": { "type": "sse", "url": "https://mcp.example.com/sse" },
            "live": { "type": "ws", "url": "wss://mcp.example.com/" },
            "git": { "command": "uvx", "args": ["mcp-server-git"] },
            "plexus": { "type": "http", "url": "http://127.0.0.1:7420/mcp" },
            "unset": { "command": "npx", "env": { "KEY": "${NOT_THERE}" } }
          },
          "projects": { "/home/ann/a": { "mcpServers": { "x": {} } }, "/home/ann/b": { "mcpServers": {} } }
        }"#,
    );
    assert_eq!(plan.form, "mcpServers (Claude Code, Claude Desktop, Cursor)");
    assert_eq!(
        documents(&plan),
        json!({
            "filesystem": {
                "transport": "stdio",
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-filesystem", "${env:HOME}/work", "$HOME"],
            },
            "api": {
                "transport": "streamable_http",
                "url": "${env:API_BASE:-https://api.example.com}/mcp",
                "headers": { "Authorization": "Bearer ${env:TOKEN}" },
                "timeout": "600000ms",
            },
            "events": { "transport": "sse", "url": "https://mcp.example.com/sse" },
            "unset": { "command": "npx", "env": { "KEY": "${env:NOT_THERE}" } },
        })
    );
    assert_eq!(
        skipped(&folder, &plan),
        [
            "\"git\" is left out: git.json already exists",
            "\"live\" is left out: its `type` is not one of the supported stdio, sse and http",
            "\"plexus\" is left out: its name is reserved for the hub itself",
        ]
    );
    assert_eq!(
        plan.warnings,
        [
            "servers of 1 folders in `projects` are not imported: import the `.mcp.json` of a folder, or copy them to \
          `mcpServers`"
        ]
    );
    let warnings: Vec<_> = plan.servers.iter().flat_map(|server| &server.warnings).collect();
    let warnings: Vec<_> = warnings.iter().map(|warning| plain(folder.dir(), warning)).collect();
    assert_eq!(
        warnings,
        [
            "api.json: `oauth` is not imported: login settings are not imported; write the `headers` that the server requires",
            "unset.json: `env.KEY` needs the variable NOT_THERE, which is not set or empty; set it where the hub is started \
             and restart the hub, give a default as in `${env:NOT_THERE:-default}`, or use `${file:PATH}`",
        ]
    );
    let applied = folder.apply(&plan);
    assert_eq!((applied.written.len(), applied.failed.len()), (4, 0));
    for file in &applied.written {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(folder.read().len(), 5);
    // The second import has nothing to do.
    let again = folder.apply(&plan);
    assert_eq!((again.written.len(), again.failed.len()), (0, 4));
}

#[test]
fn claude_desktop_file_is_imported() {
    let (_dir, folder) = folder(&[]);
    let key = format!("ghp_{}", "a1B2".repeat(9));
    let text = json!({
        "globalShortcut": "",
        "mcpServers": {
            "GitHub (work)": { "command": "docker", "args": ["run", "-i", "--rm", "x"], "env": { "GITHUB_TOKEN": key } },
            "memory": { "command": "/usr/local/bin/npx", "args": ["-y", "server-memory"] },
        }
    });
    let plan = plan(&folder, &text.to_string());
    assert_eq!(
        documents(&plan),
        json!({
            "GitHub -work": {
                "command": "docker",
                "args": ["run", "-i", "--rm", "x"],
                "env": { "GITHUB_TOKEN": "[redacted]" },
            },
            "memory": { "command": "/usr/local/bin/npx", "args": ["-y", "server-memory"] },
        })
    );
    assert!(plan.servers[0].warnings[0].contains("`env.GITHUB_TOKEN` holds what looks like a credential"));
    assert_eq!(plan.servers[0].command(), Some("docker"));
    // The written file contains the credential; moving it is the user's decision.
    folder.apply(&plan);
    assert!(std::fs::read_to_string(folder.dir().join("GitHub -work.json")).unwrap().contains(&key));
}

#[test]
fn cursor_file_is_imported() {
    let (_dir, folder) = folder(&[]);
    let plan = plan(
        &folder,
        r#"{
          "mcpServers": {
            "local": {
              "command": "${userHome}${/}bin${pathSeparator}server",
              "args": ["--config", "${env:TOKEN}"],
              "env": { "PORT": 8080, "DEBUG": true, "GONE": null },
              "envFile": ".env",
              "disabled": true,
              "autoApprove": ["x"]
            },
            "remote": { "url": "https://mcp.example.com/mcp", "headers": { "X-Key": "${env:TOKEN}" }, "auth": {} },
            "here": { "command": "node", "args": ["${workspaceFolder}/server.js"] },
            "windsurf": { "serverUrl": "https://mcp.example.com/sse", "disabledTools": ["delete_*"] },
            "gemini": { "httpUrl": "https://mcp.example.com/sse", "includeTools": ["a"], "excludeTools": ["b"], "trust": true }
          }
        }"#,
    );
    assert_eq!(
        documents(&plan),
        json!({
            "local": {
                "command": "${env:HOME}/bin/server",
                "args": ["--config", "${env:TOKEN}"],
                "env": { "PORT": "8080", "DEBUG": "true" },
                "enabled": false,
            },
            "remote": { "url": "https://mcp.example.com/mcp", "headers": { "X-Key": "${env:TOKEN}" } },
            "windsurf": { "url": "https://mcp.example.com/sse", "tools": { "deny": ["delete_*"] } },
            "gemini": {
                "transport": "streamable_http",
                "url": "https://mcp.example.com/sse",
                "tools": { "allow": ["a"], "deny": ["b"] },
            },
        })
    );
    assert_eq!(
        skipped(&folder, &plan),
        [
            "\"here\" is left out: `args[0]` uses `${workspaceFolder}`, which only an editor can resolve; write its value instead"
        ]
    );
    let local = plan.servers.iter().find(|server| server.name == "local").unwrap();
    let skipped_texts: Vec<_> = local.warnings.iter().map(|warning| plain(folder.dir(), warning)).collect();
    assert_eq!(
        skipped_texts,
        [
            "local.json: `autoApprove` is not imported: tokens and profiles decide which tools may be called",
            "local.json: `env.GONE` is not imported: it unsets a variable, and a program only gets the variables that are named here",
            "local.json: `envFile` is not imported: copy its variables into `env`, or set them where the hub is started and write `${env:NAME}`",
            "local.json: `args[1]` exposes a credential to every user of the machine; pass it in `env` if the program reads it from there",
        ]
    );
}

#[test]
fn vs_code_file_is_imported() {
    let text = r#"{
      // VS Code prompts once and stores the answer.
      "inputs": [
        { "type": "promptString", "id": "perplexity-key", "description": "Perplexity API key", "password": true },
      ],
      "servers": {
        /* no key needed */
        "fetch": { "type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"], },
        "perplexity": {
          "type": "stdio",
          "command": "npx",
          "env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}" },
        },
        "other": { "command": "npx", "args": ["${input:7}"] },
        "remote": { "type": "http", "url": "https://mcp.example.com/mcp", "dev": { "watch": "x" } },
      },
    }"#;
    let (_dir, folder) = folder(&[]);
    let plan_result = plan(&folder, text);
    assert_eq!(plan_result.form, "servers (VS Code)");
    let expected = json!({
        "fetch": { "transport": "stdio", "command": "uvx", "args": ["mcp-server-fetch"] },
        "remote": { "transport": "streamable_http", "url": "https://mcp.example.com/mcp" },
    });
    assert_eq!(documents(&plan_result), expected);
    assert_eq!(
        skipped(&folder, &plan_result),
        [
            "\"other\" is left out: `args[0]` prompts for `${input:7}`, which a hub cannot do; write `${env:INPUT_7}` and \
             set that variable where the hub is started",
            "\"perplexity\" is left out: `env.PERPLEXITY_API_KEY` prompts for `${input:perplexity-key}` (Perplexity \
             API key), which a hub cannot do; write `${env:PERPLEXITY_KEY}` and set that variable where the hub is started",
        ]
    );
    let settings = format!(r#"{{ "editor.fontSize": 12, "mcp": {text} }}"#);
    assert_eq!(documents(&plan(&folder, &settings)), expected);
}

#[test]
fn plain_map_with_own_keys_is_imported() {
    let (_dir, folder) = folder(&[]);
    let plan = plan(
        &folder,
        r#"{
          "time": { "command": "uvx", "args": ["mcp-server-time"], "groups": { "clock": ["get_*"] }, "timeout": 20 },
          "@scope/name": { "transport": "streamable-http", "url": "http://127.0.0.1:9/mcp" },
          "..": { "command": "x" },
          "Time": { "command": "y" },
          "broken": { "command": "x", "args": "not a list" }
        }"#,
    );
    assert_eq!(plan.form, "servers by name");
    assert_eq!(
        documents(&plan),
        json!({
            "Time": { "command": "y" },
            "scope-name": { "transport": "streamable_http", "url": "http://127.0.0.1:9/mcp" },
        })
    );
    assert_eq!(
        skipped(&folder, &plan),
        [
            "\"..\" is left out: its name contains no ASCII letter or digit",
            "\"broken\" is left out: `args` is text (write a list of strings, such as [\"-y\", \"some-server\"])",
            "\"time\" is left out: another server in the file would give its tools the same names",
        ]
    );
}

#[test]
fn a_file_of_codex() {
    let (_dir, folder) = folder(&[]);
    let plan_result = plan(
        &folder,
        r#"# Mine.
model = "o9"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs", "${HOME}"]
env_vars = ["DOCS_HOME"]
startup_timeout_sec = 20
tool_timeout_sec = 90.5
enabled_tools = ["read"]

[mcp_servers.docs.env]
TOKEN_FILE = "/run/docs"

[mcp_servers.tickets]
url = "https://tickets.example.com/mcp"
bearer_token_env_var = "TICKETS"
http_headers = { X-Team = "blue" }
env_http_headers = { X-User = "USER" }
tool_timeout_sec = 30

[mcp_servers.tickets.tools.close]
approval_mode = "approve"

[mcp_servers.off]
command = "uvx"
enabled = false
"#,
    );
    assert_eq!(plan_result.form, "mcp_servers (Codex)");
    assert_eq!(
        documents(&plan_result),
        json!({
            "docs": {
                "command": "npx",
                "args": ["-y", "docs", "$${HOME}"],
                "env": { "DOCS_HOME": "${env:DOCS_HOME}", "TOKEN_FILE": "/run/docs" },
                "timeout": "90500ms",
                "tools": { "allow": ["read"] },
            },
            "tickets": {
                "url": "https://tickets.example.com/mcp",
                "headers": {
                    "Authorization": "Bearer ${env:TICKETS}",
                    "X-Team": "blue",
                    "X-User": "${env:USER}",
                },
                "timeout": "30s",
            },
            "off": { "command": "uvx", "enabled": false },
        })
    );
    assert!(skipped(&folder, &plan_result).is_empty());
    let tickets = plan_result.servers.iter().find(|server| server.name == "tickets").unwrap();
    assert!(tickets.warnings[0].contains("`tools` is not imported"), "{:?}", tickets.warnings);
}

#[test]
fn a_file_of_zed() {
    let (_dir, folder) = folder(&[]);
    let plan_result = plan(
        &folder,
        r#"{
          // Of the editor.
          "theme": "One",
          "context_servers": {
            "now": { "source": "custom", "command": "npx", "args": ["-y", "a"], "env": { "A": "1" } },
            "before": { "command": { "path": "/opt/b", "args": ["x"], "env": {} }, "settings": {} },
            "far": { "url": "https://mcp.example.com/mcp" },
            "packed": { "source": "extension", "settings": {} },
          },
        }"#,
    );
    assert_eq!(
        documents(&plan_result),
        json!({
            "now": { "command": "npx", "args": ["-y", "a"], "env": { "A": "1" } },
            "before": { "command": "/opt/b", "args": ["x"] },
            "far": { "url": "https://mcp.example.com/mcp" },
        })
    );
    assert_eq!(
        skipped(&folder, &plan_result),
        [
            "\"packed\" is left out: it belongs to an extension of Zed, which knows how to start it; write `command` or \
             `url`"
        ]
    );
}

#[test]
fn a_file_of_opencode() {
    let (_dir, folder) = folder(&[]);
    let plan_result = plan(
        &folder,
        r#"{
          "$schema": "https://opencode.ai/config.json",
          "mcp": {
            "local": {
              "type": "local", "command": ["npx", "-y", "a", "{x}", "${env:B}"], "environment": { "A": "{env:TOKEN}" },
              "enabled": true, "timeout": 5000,
            },
            "far": { "type": "remote", "url": "https://a.example/mcp", "headers": { "X": "{file:/run/x}" }, "oauth": false },
          },
        }"#,
    );
    assert_eq!(plan_result.form, "mcp (OpenCode)");
    assert_eq!(
        documents(&plan_result),
        json!({
            "local": {
                "transport": "stdio",
                "command": "npx",
                "args": ["-y", "a", "{x}", "$${env:B}"],
                "env": { "A": "${env:TOKEN}" },
                "enabled": true,
            },
            "far": {
                "transport": "streamable_http",
                "url": "https://a.example/mcp",
                "headers": { "X": "${file:/run/x}" },
            },
        })
    );
}

#[test]
fn a_file_of_goose_as_json() {
    let (_dir, folder) = folder(&[]);
    let plan_result = plan(
        &folder,
        r#"{ "extensions": {
          "developer": { "type": "builtin", "name": "developer", "enabled": true },
          "docs": {
            "type": "stdio", "name": "docs", "cmd": "npx", "args": ["-y", "docs"], "envs": { "A": "1" },
            "env_keys": ["DOCS_KEY"], "timeout": 300, "enabled": true, "bundled": null, "available_tools": []
          },
          "far": { "type": "streamable_http", "uri": "https://a.example/mcp", "enabled": false }
        } }"#,
    );
    assert_eq!(
        documents(&plan_result),
        json!({
            "docs": {
                "transport": "stdio",
                "command": "npx",
                "args": ["-y", "docs"],
                "env": { "A": "1", "DOCS_KEY": "${env:DOCS_KEY}" },
                "timeout": "300s",
                "enabled": true,
            },
            "far": { "transport": "streamable_http", "url": "https://a.example/mcp", "enabled": false },
        })
    );
    assert_eq!(plan_result.notes, ["part of goose itself, not servers: developer"]);
}

#[test]
fn own_entry_is_known_by_its_target_and_not_by_its_name() {
    let (_dir, folder) = folder(&[]);
    let hub =
        ThisHub { urls: vec!["http://127.0.0.1:7420".to_owned()], data_dir: Some("/data/plexus".into()) };
    let proxy = |more: &[&str]| {
        let args = [&["mcp", "--agent", "x"], more].concat();
        json!({ "command": "/opt/plexus", "args": args })
    };
    let imported = |name: &str, entry: Value| {
        let text = json!({ "mcpServers": { name: entry } }).to_string();
        let plan = folder.import_admitted("theirs.json", &text, &hub, |_| Ok(())).unwrap();
        (plan.notes.len(), plan.servers.len(), plan.skipped.len())
    };
    let (own_counts, taken_counts, refused_counts) = ((1, 0, 0), (0, 1, 0), (0, 0, 1));
    for name in ["plexus", "hub"] {
        let other = if name == "plexus" { refused_counts } else { taken_counts };
        for (entry, expected) in [
            (proxy(&[]), own_counts),
            (proxy(&["--data-dir", "/data/plexus"]), own_counts),
            (proxy(&["--data-dir=/data/other"]), other),
            (proxy(&["--hub", "http://localhost:7420"]), own_counts),
            (proxy(&["--hub", "https://hub.example.net"]), other),
            (json!({ "url": "http://localhost:7420/mcp" }), own_counts),
            (json!({ "url": "http://localhost:7421/mcp" }), other),
            (json!({ "command": "plexus", "args": ["up"] }), other),
            (json!({ "command": "npx", "args": ["mcp"] }), other),
        ] {
            assert_eq!(imported(name, entry.clone()), expected, "{name}: {entry}");
        }
    }
}

#[test]
fn unrecognized_files_are_refused() {
    let (_dir, folder) = folder(&[]);
    let none = "has none of `mcpServers`, `mcp_servers`, `servers`, `context_servers`, `mcp` and `extensions`, and is not a \
                map of servers by name; name the file in which the program stores its MCP servers";
    for (text, why) in [
        ("", "is empty"),
        ("[]", "is not an object: it must begin with `{`"),
        ("{", "is not JSON: unterminated object on line 1, column 1"),
        ("{}", none),
        (r#"{"editor.fontSize": 12}"#, none),
        ("[mcp_servers.a]\ncommand = x\n", "is not TOML: text needs quotes on line 2"),
        ("model = \"o9\"\n", none),
        ("no file of servers", "is not JSON: unexpected word on line 1, column 1"),
        (r#"{"mcpServers": []}"#, "has servers that are not an object keyed by name"),
    ] {
        let error = folder.import("x.json", text).unwrap_err();
        assert_eq!(error.to_string(), format!("x.json cannot be imported: it {why}"));
    }
    assert!(plan(&folder, r#"{"mcpServers": {}}"#).servers.is_empty());
}

#[test]
fn legacy_file_is_migrated_once_and_backed_up() {
    let data = tempfile::tempdir().unwrap();
    let now = Clock::manual("2026-11-16T06:00:00Z".parse().unwrap());
    let folder = Folder::new(data.path().join("mcp_servers.d"), super::environment()).with_clock(now);
    assert!(migrate(data.path(), &folder).unwrap().is_none());
    let text = r#"{"mcpServers": {"a": {"command": "npx"}, "b": {"type": "ws"}}}"#;
    let old = data.path().join("mcp_servers.json");
    std::fs::write(&old, text).unwrap();
    let migration = migrate(data.path(), &folder).unwrap().unwrap();
    assert_eq!(migration.applied.written, [data.path().join("mcp_servers.d/a.json")]);
    assert_eq!(migration.plan.skipped.len(), 1);
    let backup = data.path().join("mcp_servers.json.migrated-20261116T060000Z.bak");
    assert_eq!(migration.backup.as_ref(), Some(&backup));
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), text);
    assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(migrate(data.path(), &folder).unwrap().is_none());
    // An unusable file stays.
    std::fs::write(&old, "{").unwrap();
    assert!(migrate(data.path(), &folder).is_err());
    assert!(old.exists());
}

#[test]
fn legacy_file_stays_until_its_servers_are_written() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("mcp_servers.d");
    let folder = Folder::new(dir.clone(), super::environment());
    let old = data.path().join("mcp_servers.json");
    std::fs::write(&old, r#"{"mcpServers": {"a": {"command": "npx"}, "b": {"command": "npx"}}}"#).unwrap();
    // A folder on a disk that is not mounted.
    std::os::unix::fs::symlink(data.path().join("disk"), &dir).unwrap();
    let migration = migrate(data.path(), &folder).unwrap().unwrap();
    assert_eq!((migration.applied.failed.len(), &migration.backup), (2, &None));
    assert!(old.exists());
    // The next start completes the migration.
    std::fs::create_dir(data.path().join("disk")).unwrap();
    std::fs::write(dir.join("a.json"), r#"{"command": "npx"}"#).unwrap();
    let migration = migrate(data.path(), &folder).unwrap().unwrap();
    assert_eq!(migration.applied.written, [dir.join("b.json")]);
    assert!(migration.backup.unwrap().exists() && !old.exists());
    // The old file also stays if the folder cannot be read.
    std::fs::write(&old, r#"{"mcpServers": {"a": {"command": "npx"}}}"#).unwrap();
    let file = Folder::new(dir.join("a.json"), super::environment());
    assert!(migrate(data.path(), &file).is_err() && old.exists());
}

/// References of a server that is not admitted are not even looked up.
#[test]
fn unadmitted_import_reveals_no_files() {
    let (_dir, folder) = folder(&[]);
    let skipped_texts = |path: &str| {
        let entry = json!({ "url": "https://a.example", "headers": { "X": format!("${{file:{path}}}") } });
        let text = json!({ "mcpServers": { "spy": entry } }).to_string();
        let admit = |planned: &PlannedServer| match planned.has_references() {
            true => Err("it refers to something".to_owned().into()),
            false => Ok(()),
        };
        let plan = folder.import_admitted("theirs.json", &text, &ThisHub::default(), admit).unwrap();
        assert!(plan.servers.is_empty());
        skipped(&folder, &plan)
    };
    let existing = skipped_texts("/etc/passwd");
    assert_eq!(existing, ["\"spy\" is left out: it refers to something"]);
    assert_eq!(skipped_texts("/etc/no-such-file"), existing);
    assert_eq!(skipped_texts("/etc"), existing);
}
