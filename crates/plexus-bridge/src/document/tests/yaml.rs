//! YAML: indentation, flow mappings, anchors, and files that cannot be edited safely.

use super::{Case, changed, check, edit, refused};
use crate::document::Syntax;

const CASES: &[Case] = &[
    edit(
        "empty",
        "",
        "extensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n",
    ),
    edit(
        "comments only",
        "# nothing yet\n",
        "# nothing yet\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n",
    ),
    changed(
        "no servers",
        "# mine\nmodel: gpt # the one\nlist:\n- 1\n- 2\n",
        "# mine\nmodel: gpt # the one\nlist:\n- 1\n- 2\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n",
        ("gpt", "claude"),
    ),
    changed(
        "other servers with comments",
        "extensions: # all\n  # first\n  dev:\n    enabled: true\n# last\nb: 1\n",
        "extensions: # all\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n  # first\n  dev:\n    enabled: true\n# last\nb: 1\n",
        ("b: 1", "b: 2"),
    ),
    changed(
        "four spaces",
        "extensions:\n    dev:\n        enabled: true\n",
        "extensions:\n    plexus:\n      command: /opt/plexus\n      args:\n      - mcp\n      - \"--as\"\n      - \"a b\"\n    dev:\n        enabled: true\n",
        ("enabled: true", "enabled: false"),
    ),
    changed(
        "CRLF",
        "a: 1\r\nextensions:\r\n  dev: {}\r\n",
        "a: 1\r\nextensions:\r\n  plexus:\r\n    command: /opt/plexus\r\n    args:\r\n    - mcp\r\n    - \"--as\"\r\n    - \"a b\"\r\n  dev: {}\r\n",
        ("a: 1", "a: 2"),
    ),
    changed(
        "byte order mark and no final newline",
        "\u{feff}a: 1",
        "\u{feff}a: 1\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n",
        ("a: 1", "a: 2"),
    ),
    changed(
        "a key without a value",
        "extensions:\nb: 1\n",
        "extensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\nb: 1\n",
        ("b: 1", "b: 2"),
    ),
    changed(
        "an empty flow mapping",
        "extensions: {}\nb: 1\n",
        "extensions: {\"plexus\": {\"args\":[\"mcp\",\"--as\",\"a b\"],\"command\":\"/opt/plexus\"}}\nb: 1\n",
        ("b: 1", "b: 2"),
    ),
    changed(
        "a flow mapping with other servers",
        "extensions: {dev: {enabled: true}} # all\nb: 1\n",
        "extensions: {\"plexus\": {\"args\":[\"mcp\",\"--as\",\"a b\"],\"command\":\"/opt/plexus\"}, dev: {enabled: true}} # all\nb: 1\n",
        ("enabled: true", "enabled: false"),
    ),
    edit(
        "a document that is a flow mapping",
        "{a: 1}\n",
        "{\"extensions\": {\"plexus\":{\"args\":[\"mcp\",\"--as\",\"a b\"],\"command\":\"/opt/plexus\"}}, a: 1}\n",
    ),
    changed(
        "a document with a directive and a marker",
        "%YAML 1.2\n---\na: 1\n",
        "%YAML 1.2\n---\na: 1\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n",
        ("a: 1", "a: 2"),
    ),
    changed(
        "anchors, merges and tags",
        "base: &base {x: 1}\nmore:\n  <<: *base\n  y: !!str 2\nextensions: &all\n  dev: *base\n",
        "base: &base {x: 1}\nmore:\n  <<: *base\n  y: !!str 2\nextensions: &all\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n  dev: *base\n",
        ("y: !!str 2", "y: !!str 3"),
    ),
    edit(
        "a block scalar at the end",
        "text: |\n  extensions:\n    plexus: no\n",
        "text: |\n  extensions:\n    plexus: no\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n",
    ),
    edit(
        "multi-byte characters before the insertion",
        "é: \"ü\" # ☃\nextensions:\n  dev: {}\n",
        "é: \"ü\" # ☃\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n  dev: {}\n",
    ),
    changed(
        "an existing entry",
        "extensions:\n  plexus:\n    cmd: old # why\n    x: [1]\n\n  # other\n  dev: {}\n",
        "extensions:\n  plexus:\n    {\"args\":[\"mcp\",\"--as\",\"a b\"],\"command\":\"/opt/plexus\"}\n\n  # other\n  dev: {}\n",
        ("dev: {}", "dev: {y: 1}"),
    ),
    refused(
        "servers that an alias refers to",
        "extensions: &all\n  dev: {}\nother: *all\n",
        "is written in a way that cannot be edited safely; nothing was changed",
    ),
    refused(
        "a flow mapping with an anchor",
        "extensions: &all {}\n",
        "is written in a way that cannot be edited safely; nothing was changed",
    ),
    refused(
        "duplicate servers",
        "extensions: {}\nextensions: {}\n",
        "has the key `extensions` twice, again on line 2; remove one of them",
    ),
    refused("two documents", "a: 1\n---\nb: 2\n", "contains more than one document"),
    refused("a list at the top level", "- 1\n- 2\n", "does not contain an object at the top level"),
    refused(
        "servers are a list",
        "a: 1\nextensions:\n- x\n",
        "has a value other than a mapping for `extensions` on line 3",
    ),
    refused(
        "servers are an explicit null",
        "extensions: ~\n",
        "has a value other than a mapping for `extensions`",
    ),
    refused(
        "servers are an alias",
        "a: &a {}\nextensions: *a\n",
        "has a value other than a mapping for `extensions` on line 2",
    ),
    refused(
        "a document with an end marker",
        "a: 1\n...\n",
        "is written in a way that cannot be edited safely; nothing was changed",
    ),
    refused(
        "a block scalar without a final newline",
        "a: |\n  text",
        "is written in a way that cannot be edited safely; nothing was changed",
    ),
    refused(
        "a tab",
        "a:\n\tb: 1\n",
        "is not valid YAML: tabs disallowed within this context (block indentation) on line 2",
    ),
    refused(
        "truncated",
        "a: \"sk-secret",
        "is not valid YAML: while scanning a quoted scalar, found unexpected end of stream on line 1",
    ),
];

#[test]
fn edge_cases_are_edited_or_refused_exactly() {
    check(Syntax::Yaml, &["extensions", "plexus"], CASES);
}

#[test]
fn entry_without_arguments_is_written_with_empty_collections() {
    let value = serde_json::json!({ "args": [], "cmd": "x", "env": {} });
    let edited = Syntax::Yaml.set("a: 1\n", &["extensions", "plexus"], &value).unwrap();
    assert_eq!(edited.text, "a: 1\nextensions:\n  plexus:\n    cmd: x\n    args: []\n    env: {}\n");
}
