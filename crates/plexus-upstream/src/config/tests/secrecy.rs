//! Credentials in files: warned about, and absent from all texts.

use plexus_kit::Environment;
use serde_json::{Value, json};

use super::super::{Folder, Inward, inward, outline};
use super::{folder, server};

/// Assembled at run time, so that no text of this file looks like a credential.
fn literals() -> [(&'static str, String); 4] {
    [
        ("github", format!("ghp_{}", "a1B2".repeat(9))),
        ("openai", format!("sk-{}", "a1B2".repeat(9))),
        ("jwt", ["eyJhbGciOiJFZERTQSJ9", "eyJqdGkiOiIwMTkifQ", "c2lnbmF0dXJlLXBhcnQ"].join(".")),
        ("slack", format!("xoxb-{}", "1234567890".repeat(2))),
    ]
}

#[test]
fn literal_credential_is_warned_about_with_a_replacement() {
    let key = &literals()[1].1;
    for (text, warnings) in [
        (
            json!({ "command": "npx", "env": { "MY_TOKEN": "hunter2", "SOME_KEY": "hunter2", "LOG": "debug", "KEY_FILE": "x" } }),
            &[
                "`env.MY_TOKEN` holds what looks like a credential; write `${env:MY_TOKEN}` instead, and set that variable \
               where the hub is started",
                "`env.SOME_KEY` holds what looks like a credential; write `${env:SOME_KEY}` instead, and set that variable \
               where the hub is started",
            ][..],
        ),
        (
            json!({ "url": "https://a.example", "headers": { "Authorization": "Bearer hunter2", "X-Api-Key": "hunter2", "X-Team": "blue" } }),
            &[
                "`headers.Authorization` holds what looks like a credential; write `Bearer ${env:MY_SERVER_TOKEN}` instead, \
               and set that variable where the hub is started",
                "`headers.X-Api-Key` holds what looks like a credential; write `${env:MY_SERVER_TOKEN}` instead, \
               and set that variable where the hub is started",
            ],
        ),
        (
            json!({ "command": "npx", "args": ["--key", key] }),
            &[
                "`args[1]` holds what looks like a credential; write `${env:MY_SERVER_TOKEN}` instead, and set \
               that variable where the hub is started",
            ],
        ),
        (
            json!({ "command": "npx", "args": ["--api-key", "hunter2", "--my-token=hunter2", "--token", "--verbose", "--key", "/etc/key"] }),
            &[
                "`args[1]` holds what looks like a credential; write `${env:MY_SERVER_TOKEN}` instead, and set \
               that variable where the hub is started",
                "`args[2]` holds what looks like a credential; write `${env:MY_SERVER_TOKEN}` instead, and set \
               that variable where the hub is started",
            ],
        ),
        (
            json!({ "command": "npx", "args": ["--key=${env:TOKEN}"] }),
            &[
                "`args[0]` exposes a credential to every user of the machine; pass it in `env` if the program reads it from there",
            ],
        ),
        (
            json!({ "url": "https://a.example/mcp?api_key=hunter2" }),
            &["`url` holds what looks like a credential; write `${env:MY_SERVER_TOKEN}` instead, and set \
               that variable where the hub is started"],
        ),
        (
            json!({ "url": "https://a.example/mcp?api_key=${env:TOKEN}", "headers": { "Authorization": "Bearer ${env:TOKEN}" } }),
            &[],
        ),
        (
            json!({ "command": "npx", "env": { "SSH_KEY": "~/.ssh/id", "A_TOKEN": "", "B_SECRET": "${env:TOKEN}", "USE_KEY": "true" } }),
            &[],
        ),
    ] {
        let server = server("my server.json", &text.to_string());
        let expected: Vec<String> =
            warnings.iter().map(|warning| format!("my server.json: {warning}")).collect();
        assert_eq!(server.warnings, expected, "{text}");
    }
}

#[test]
fn shown_document_keeps_references_and_masks_credentials() {
    let [(_, github), (_, openai), (_, jwt), (_, slack)] = literals();
    let written = json!({
        "command": "npx",
        "args": ["--key", openai, "plain"],
        "env": { "GH_TOKEN": github, "MY_PASSWORD": "hunter2", "OTHER": slack, "REF_TOKEN": "${env:TOKEN}", "LOG": "x" },
        "headers": { "Authorization": format!("Bearer {jwt}"), "X-Team": "blue" },
        "instructions": format!("use {jwt}"),
        "tools": { "allow": ["a"], "rename": { "get_token": "token" } },
        "url": "https://a.example/mcp?api_key=hunter2&a=b",
        "header": { "X-Api-Key": "hunter2" },
        "password": "hunter2",
    });
    let (_dir, folder) = folder(&[("a.json", &written.to_string())]);
    let shown = folder.document("a").unwrap();
    assert_eq!(
        shown,
        json!({
            "command": "npx",
            "args": ["--key", "[redacted]", "plain"],
            "env": {
                "GH_TOKEN": "[redacted]",
                "MY_PASSWORD": "[redacted]",
                "OTHER": "[redacted]",
                "REF_TOKEN": "${env:TOKEN}",
                "LOG": "x",
            },
            "headers": { "Authorization": "[redacted]", "X-Team": "blue" },
            "instructions": "use [redacted]",
            "tools": { "allow": ["a"], "rename": { "get_token": "token" } },
            "url": "https://a.example/mcp[redacted]&a=b",
            "header": { "X-Api-Key": "[redacted]" },
            "password": "[redacted]",
        })
    );
}

#[test]
fn value_of_a_flag_is_masked_but_not_its_name() {
    for (written, shown) in [
        (json!(["--api-key", "s3cr3t", "x"]), json!(["--api-key", "[redacted]", "x"])),
        (json!(["--api-key=s3cr3t"]), json!(["--api-key=[redacted]"])),
        (json!(["--db-pass=s3=cr3t="]), json!(["--db-pass=[redacted]"])),
        (json!(["--header", "X-Api-Key: s3cr3t"]), json!(["--header", "X-Api-Key: [redacted]"])),
        (json!(["-e", "MY_KEY=s3cr3t"]), json!(["-e", "MY_KEY=[redacted]"])),
        (json!(["--token", "--verbose", "x"]), json!(["--token", "--verbose", "x"])),
        (json!(["--token", "${env:TOKEN}"]), json!(["--token", "${env:TOKEN}"])),
        (json!(["--token-file", "name", "key"]), json!(["--token-file", "name", "key"])),
    ] {
        let text = json!({ "command": "npx", "args": written }).to_string();
        let (_dir, folder) = folder(&[("a.json", &text)]);
        assert_eq!(folder.document("a").unwrap()["args"], shown, "{text}");
    }
}

/// Some servers use the URL as the credential.
#[test]
fn random_url_segments_are_masked() {
    let (uuid, random) = ("0190f3c2-7b1a-7c3e-9d52-3f6a1b2c4d5e", "NjQ2YzE5ZmItMTIzNC00".repeat(2));
    for (path, shown) in [
        (format!("api/s/{random}/mcp"), "api/s/[redacted]/mcp"),
        (format!("{uuid}/sse"), "[redacted]/sse"),
        (format!("v1/{}", "a1b2c3d4".repeat(3)), "v1/[redacted]"),
        (format!("mcp?user={uuid}&a=b"), "mcp?user=[redacted]&a=b"),
        ("v1/model-context-protocol-2025-11-25/mcp".to_owned(), "v1/model-context-protocol-2025-11-25/mcp"),
        ("projects/my-long-project-name/servers/42".to_owned(), "projects/my-long-project-name/servers/42"),
        ("${env:TOKEN}/mcp".to_owned(), "${env:TOKEN}/mcp"),
    ] {
        let host = "https://a1b2c3d4a1b2c3d4a1b2.example";
        let (written, shown) = (format!("{host}/{path}"), format!("{host}/{shown}"));
        let as_url = json!({ "url": written }).to_string();
        let as_argument = json!({ "command": "npx", "args": ["mcp-remote", written] }).to_string();
        let (_dir, folder) = folder(&[("a.json", &as_url), ("b.json", &as_argument)]);
        assert_eq!(folder.document("a").unwrap()["url"], shown);
        assert_eq!(folder.document("b").unwrap()["args"][1], shown);
        let warned = folder.read()[0].server.as_ref().unwrap().warnings.len();
        assert_eq!(warned, usize::from(written != shown), "{written}");
    }
}

#[test]
fn outline_contains_no_credentials() {
    let outlined = |document: Value| Value::Object(outline(document.as_object().unwrap()));
    assert_eq!(
        outlined(
            json!({ "command": "npx", "args": ["-y", "x", "--api-key", "s3cr3t"], "env": { "A": "b" } })
        ),
        json!({ "command": "npx", "args": ["-y", "x", "--api-key", "[redacted]"] })
    );
    assert_eq!(
        outlined(
            json!({ "url": "https://a.example:8443/s3cr3t?a=b", "headers": { "X": "y" }, "transport": "sse" })
        ),
        json!({ "origin": "https://a.example:8443", "transport": "sse" })
    );
    let long = outlined(json!({ "command": "é".repeat(300), "args": vec!["x"; 40] }));
    assert_eq!(long["command"], format!("{}…", "é".repeat(200)));
    assert_eq!((long["args"].as_array().unwrap().len(), &long["args"][32]), (33, &json!("… and 8 more")));
}

#[test]
fn inward_urls_are_detected() {
    for url in [
        "http://127.0.0.1:9/mcp",
        "http://localhost",
        "https://a.LOCALHOST/x",
        "http://[::1]:1/",
        "http://127.1/",
    ] {
        assert_eq!(inward(&json!({ "url": url })), Inward { private: false, loopback: true }, "{url}");
    }
    for url in ["https://a.example/127.0.0.1", "https://localhost.example", "http://10.0.0.1/", "nonsense"] {
        assert_eq!(inward(&json!({ "url": url, "allow_private": false })), Inward::default(), "{url}");
        assert!(inward(&json!({ "url": url, "allow_private": true })).private, "{url}");
    }
}

/// Puts a secret into every position of a document, literally and by reference, in valid and invalid files:
/// no error, warning or `Debug` output contains it.
#[test]
fn no_message_contains_a_value() {
    const SECRET: &str = "hunter2-the-value";
    let templates = [
        json!({ "command": "S", "args": ["S", "xS"], "env": { "A": "S", "A_TOKEN": "S" }, "cwd": "S", "instructions": "S" }),
        json!({ "url": "https://a.example/S?token=S", "headers": { "Authorization": "S", "X-A": "S" } }),
        json!({ "url": "https://u:S@a.example/", "headers": { "X-A": "S\n" } }),
        json!({ "url": "S" }),
        json!({ "transport": "S", "naming": "S", "timeout": "S", "node": "S", "inject": { "a": "S" } }),
        json!({ "command": ["S"], "args": "S", "env": "S", "headers": ["S"], "cwd": { "a": "S" }, "url": 1 }),
        json!({ "unknown": "S", "tools": { "zebra": "S", "allow": "S", "rename": { "a": "S", "b": "S" } } }),
        json!({ "command": "npx", "groups": { "a": ["S"], "b": "S" }, "tools": { "deny": ["S"] }, "enabled": "S" }),
        json!({ "command": "npx S", "args": ["S\u{0}"], "env": { "B": "S\u{0}" }, "timeout": "S" }),
        json!({ "command": "npx", "env": { "A": "${env:MISSING}S", "B": "S${", "C": "${S" , "D": "${file:missing}S" } }),
    ];
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("secret"), format!("{SECRET}\n")).unwrap();
    let environment: Environment =
        [("SECRET", SECRET), ("HOME", "/h")].map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect();
    let folder = Folder::new(dir.path().to_owned(), environment);
    for template in &templates {
        for instead in [SECRET, "${env:SECRET}", "${file:secret}", "${env:MISSING:-hunter2-the-value}"] {
            let document: Value = serde_json::from_str(
                &template.to_string().replace('S', "@").replace("MI@@ING", "MISSING").replace("@", instead),
            )
            .unwrap_or_else(|error| panic!("{template}: {error}"));
            std::fs::write(dir.path().join("a.json"), document.to_string()).unwrap();
            let entries = folder.read();
            let mut output = format!("{entries:?}{:?}", folder.check("a", &document));
            match &entries[0].server {
                Ok(server) => {
                    output.push_str(&format!(
                        "{:?}{:?}{}",
                        server,
                        server.transport,
                        server.warnings.join("")
                    ));
                }
                Err(problems) => problems.iter().for_each(|problem| output.push_str(&problem.to_string())),
            }
            if let Err(error) = folder.add("b", &document) {
                output.push_str(&format!("{error}{error:?}"));
            } else {
                folder.remove("b").unwrap();
            }
            let plan =
                folder.import("x.json", &json!({ "mcpServers": { "c": document } }).to_string()).unwrap();
            output.push_str(&format!("{plan:?}"));
            for server in &plan.servers {
                output.push_str(&server.warnings.join(""));
            }
            assert!(!output.contains(SECRET), "{document}\n{output}");
        }
    }
    // Also in texts that are not documents.
    for (ending, text) in [
        ("json", format!("{{\"a\": \"{SECRET}\" \"{SECRET}\"}}")),
        ("json", format!("{{\"a\": {SECRET}}}")),
        ("json", SECRET.to_owned()),
        ("toml", format!("a = {SECRET}")),
        ("toml", format!("a = \"{SECRET}\" {SECRET}")),
        ("toml", format!("a = \"{SECRET}")),
        ("toml", format!("{SECRET} {SECRET}")),
    ] {
        std::fs::remove_file(dir.path().join("a.json")).ok();
        let path = dir.path().join(format!("a.{ending}"));
        std::fs::write(&path, &text).unwrap();
        let entries = folder.read();
        let output = format!("{:?}", entries[0].server.as_ref().unwrap_err());
        assert!(!output.contains(SECRET), "{text}\n{output}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn client_secret_is_masked_but_not_certificate_paths() {
    let text = r#"{"url": "https://a.example", "auth": {"type": "oauth", "client_id": "hub", "client_secret": "hunter2",
        "authorization_server": "https://login.example",
        "tls": {"client_cert": "a.pem", "client_key": "keys/a.key"}}}"#;
    let (_dir, folder) = folder(&[("my-server.json", text)]);
    let shown = folder.document("my-server").unwrap();
    assert_eq!(shown["auth"]["client_secret"], "[redacted]", "{shown}");
    assert_eq!(shown["auth"]["client_id"], "hub", "{shown}");
    assert_eq!(shown["auth"]["tls"]["client_key"], "keys/a.key", "{shown}");
    let warnings = server("my-server.json", text).warnings.join("\n");
    assert!(warnings.contains("`auth.client_secret` holds what looks like a credential"), "{warnings}");
    assert!(!warnings.contains("hunter2"), "{warnings}");
}
