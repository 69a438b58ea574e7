//! The JSON Schema of a server file, used both by editors and for validation.

use std::sync::LazyLock;

use plexus_kit::findings::Findings;
use plexus_tools::file_schema::{FieldHints, FileSchema};
use serde_json::{Map, Value};

use super::document::Document;

static SCHEMA: LazyLock<FileSchema> =
    LazyLock::new(|| FileSchema::of::<Document>(FieldHints { misplaced_key_hint, value_hint }));

/// The schema as committed in the documentation.
#[must_use]
pub fn schema_file() -> String {
    SCHEMA.text()
}

/// Reports violations of the schema and removes them from the document; returns the keys that were most
/// likely meant.
pub(super) fn check(document: &mut Map<String, Value>, findings: &mut Findings) -> Vec<String> {
    SCHEMA.check(document, findings)
}

/// Advice for keys that other programs use.
fn misplaced_key_hint(key: &str) -> Option<&'static str> {
    Some(match key {
        "type" => "it is called `transport` here",
        "disabled" => "it is called `enabled` here and means the opposite",
        "serverUrl" | "httpUrl" => "it is called `url` here",
        "mcpServers" | "servers" => {
            "this file describes several servers: import it with `plexus upstream import FILE`"
        }
        _ => return None,
    })
}

/// Advice for each field.
fn value_hint(path: &[&str]) -> &'static str {
    match path[..] {
        ["transport"] => r#"write "stdio", "sse" or "streamable_http", or leave it out"#,
        ["command"] => r#"write the name or path of a program as a string, such as "npx""#,
        ["args"] => r#"write a list of strings, such as ["-y", "some-server"]"#,
        ["env"] => r#"write an object with string values, such as {"LOG_LEVEL": "info"}"#,
        ["headers"] => r#"write an object with string values, such as {"X-Team": "blue"}"#,
        ["cwd"] => "write the path of a folder as a string",
        ["url"] => r#"write a URL as a string, such as "https://mcp.example.net/mcp""#,
        ["auth"] => r#"write an object, such as {"type": "oauth"}"#,
        ["auth", "type"] => r#"write "oauth", or leave it out"#,
        ["auth", "grant"] => r#"write "authorization_code" or "client_credentials", or leave it out"#,
        ["auth", "scopes"] => r#"write a list of strings, such as ["files:read"]"#,
        ["auth", "redirect_port"] => "write a port number from 1 to 65535",
        ["auth", "tls"] => r#"write an object with client_cert and client_key, or ca"#,
        ["timeout"] => r#"write a string such as "30s" or "5m", or a number of seconds"#,
        ["max_concurrency"] => "write a whole number from 1 to 1024",
        ["naming"] => r#"write "prefixed" or "bare", or leave it out"#,
        ["approve"] => r#"write "manual", "tofu" or "auto", or leave it out"#,
        ["enabled" | "lazy" | "per_session" | "questions" | "allow_private"] => {
            "write true or false, without quotes"
        }
        ["tools"] => r#"write an object with allow, deny, rename or idempotent"#,
        ["tools", "rename"] => r#"write an object with string values, such as {"old": "new"}"#,
        ["tools", _] => r#"write a list of names, such as ["read_*"]"#,
        ["groups"] => r#"write an object with list values, such as {"reading": ["read_*"]}"#,
        ["groups", _] => r#"write a list of names, such as ["read_*"]"#,
        ["inject"] => r#"write an object, such as {"session": "session_id"}"#,
        ["inject", _] => r#"write "session_id", "session_files" or "path""#,
        [] => "write an object",
        _ => "write text, in quotes",
    }
}
