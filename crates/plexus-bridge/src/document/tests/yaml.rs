//! YAML: indents, braces, anchors, and what would be read in another way.

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
        "byte order mark and no line end",
        "\u{feff}a: 1",
        "\u{feff}a: 1\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n",
        ("a: 1", "a: 2"),
    ),
    changed(
        "nothing behind the key",
        "extensions:\nb: 1\n",
        "extensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\nb: 1\n",
        ("b: 1", "b: 2"),
    ),
    changed(
        "empty braces",
        "extensions: {}\nb: 1\n",
        "extensions: {\"plexus\": {\"args\":[\"mcp\",\"--as\",\"a b\"],\"command\":\"/opt/plexus\"}}\nb: 1\n",
        ("b: 1", "b: 2"),
    ),
    changed(
        "braces with others",
        "extensions: {dev: {enabled: true}} # all\nb: 1\n",
        "extensions: {\"plexus\": {\"args\":[\"mcp\",\"--as\",\"a b\"],\"command\":\"/opt/plexus\"}, dev: {enabled: true}} # all\nb: 1\n",
        ("enabled: true", "enabled: false"),
    ),
    edit(
        "all of it in braces",
        "{a: 1}\n",
        "{\"extensions\": {\"plexus\":{\"args\":[\"mcp\",\"--as\",\"a b\"],\"command\":\"/opt/plexus\"}}, a: 1}\n",
    ),
    changed(
        "a marked document",
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
        "a text over lines at the end",
        "text: |\n  extensions:\n    plexus: no\n",
        "text: |\n  extensions:\n    plexus: no\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n",
    ),
    edit(
        "letters of more than one byte before the place",
        "é: \"ü\" # ☃\nextensions:\n  dev: {}\n",
        "é: \"ü\" # ☃\nextensions:\n  plexus:\n    command: /opt/plexus\n    args:\n    - mcp\n    - \"--as\"\n    - \"a b\"\n  dev: {}\n",
    ),
    changed(
        "the entry is there",
        "extensions:\n  plexus:\n    cmd: old # why\n    x: [1]\n\n  # other\n  dev: {}\n",
        "extensions:\n  plexus:\n    {\"args\":[\"mcp\",\"--as\",\"a b\"],\"command\":\"/opt/plexus\"}\n\n  # other\n  dev: {}\n",
        ("dev: {}", "dev: {y: 1}"),
    ),
    refused(
        "servers that others stand for",
        "extensions: &all\n  dev: {}\nother: *all\n",
        "is written in a way that cannot be edited safely; nothing was changed",
    ),
    refused(
        "braces with an anchor",
        "extensions: &all {}\n",
        "is written in a way that cannot be edited safely; nothing was changed",
    ),
    refused(
        "servers twice",
        "extensions: {}\nextensions: {}\n",
        "has the key `extensions` twice, again on line 2; remove one of them",
    ),
    refused("two documents", "a: 1\n---\nb: 2\n", "holds more than one document"),
    refused("a list at the top", "- 1\n- 2\n", "holds no object with settings at its top"),
    refused("servers are a list", "a: 1\nextensions:\n- x\n", "has no mapping behind `extensions` on line 3"),
    refused("servers are nothing, in a word", "extensions: ~\n", "has no mapping behind `extensions`"),
    refused(
        "servers stand for others",
        "a: &a {}\nextensions: *a\n",
        "has no mapping behind `extensions` on line 2",
    ),
    refused(
        "a closed document",
        "a: 1\n...\n",
        "is written in a way that cannot be edited safely; nothing was changed",
    ),
    refused(
        "a text over lines that ends with the file",
        "a: |\n  text",
        "is written in a way that cannot be edited safely; nothing was changed",
    ),
    refused(
        "a tab",
        "a:\n\tb: 1\n",
        "is not valid YAML: tabs disallowed within this context (block indentation) on line 2",
    ),
    refused(
        "cut off",
        "a: \"sk-secret",
        "is not valid YAML: while scanning a quoted scalar, found unexpected end of stream on line 1",
    ),
];

#[test]
fn awkward_files() {
    check(Syntax::Yaml, &["extensions", "plexus"], CASES);
}

#[test]
fn an_entry_without_arguments() {
    let value = serde_json::json!({ "args": [], "cmd": "x", "env": {} });
    let edited = Syntax::Yaml.set("a: 1\n", &["extensions", "plexus"], &value).unwrap();
    assert_eq!(edited.text, "a: 1\nextensions:\n  plexus:\n    cmd: x\n    args: []\n    env: {}\n");
}
