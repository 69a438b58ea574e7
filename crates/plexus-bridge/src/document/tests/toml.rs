//! TOML: tables, inline tables, dotted keys, and invalid files.

use super::{Case, changed, check, edit, refused};
use crate::document::Syntax;

const CASES: &[Case] = &[
    edit(
        "empty",
        "",
        "[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
    ),
    edit(
        "white space only",
        "\n  \n",
        "\n  \n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
    ),
    changed(
        "comments",
        "# mine\nmodel = \"o3\"   # the one\n\n# the end\n",
        "# mine\nmodel = \"o3\"   # the one\n\n# the end\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
        ("# mine\n", "# still mine\nextra = [1, 2]\n"),
    ),
    changed(
        "CRLF",
        "model = \"o3\"\r\n[tui]\r\ntheme = 1\r\n",
        "model = \"o3\"\r\n[tui]\r\ntheme = 1\r\n\r\n[mcp_servers.plexus]\r\ncommand = \"/opt/plexus\"\r\nargs = [\"mcp\", \"--as\", \"a b\"]\r\n",
        ("theme = 1", "theme = 2"),
    ),
    changed(
        "byte order mark",
        "\u{feff}model = \"o3\"\n",
        "\u{feff}model = \"o3\"\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
        ("o3", "o4"),
    ),
    changed(
        "no final newline",
        "model = \"o3\"",
        "model = \"o3\"\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
        ("o3", "o4"),
    ),
    changed(
        "a final comment without a newline",
        "a = 1\n# end",
        "a = 1\n# end\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
        ("a = 1", "a = 2"),
    ),
    changed(
        "other servers",
        "[mcp_servers.other]\ncommand = \"x\"\n\n[mcp_servers.other.env]\nA = \"1\"\n\n[zz]\nb = 1\n",
        "[mcp_servers.other]\ncommand = \"x\"\n\n[mcp_servers.other.env]\nA = \"1\"\n\n[zz]\nb = 1\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
        ("A = \"1\"\n", "A = \"1\"\nB = \"2\"\n"),
    ),
    edit(
        "an array of tables at the end",
        "[[hooks]]\nname = \"a\"\n\n[[hooks]]\nname = \"b\"\n",
        "[[hooks]]\nname = \"a\"\n\n[[hooks]]\nname = \"b\"\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
    ),
    changed(
        "servers in an inline table",
        "mcp_servers = { other = { command = \"x\" } } # all\nb = 1\n",
        "mcp_servers = { other = { command = \"x\" }, plexus = { command = \"/opt/plexus\", args = [\"mcp\", \"--as\", \"a b\"] } } # all\nb = 1\n",
        ("b = 1", "b = 2"),
    ),
    changed(
        "an empty inline table",
        "mcp_servers = {}\nb = 1\n",
        "mcp_servers = { plexus = { command = \"/opt/plexus\", args = [\"mcp\", \"--as\", \"a b\"] } }\nb = 1\n",
        ("b = 1", "b = 2"),
    ),
    edit(
        "dotted keys",
        "mcp_servers.other.command = \"x\"\n",
        "mcp_servers.other.command = \"x\"\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
    ),
    changed(
        "an existing entry",
        "a = 1\n\n[mcp_servers.plexus] # old\ncommand = \"old\" # why\nextra = true\n\n[other]\nb = 2\n",
        "a = 1\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n\n[other]\nb = 2\n",
        ("b = 2", "b = 3"),
    ),
    edit(
        "an existing entry with subtables",
        "[mcp_servers.plexus]\ncommand = \"old\"\n\n[mcp_servers.plexus.env]\nA = \"1\"\n\n[other]\nb = 2\n",
        "[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n\n[other]\nb = 2\n",
    ),
    edit(
        "an existing entry in an inline table",
        "[mcp_servers]\nplexus = { command = \"old\" } # mine\n",
        "[mcp_servers]\nplexus = { command = \"/opt/plexus\", args = [\"mcp\", \"--as\", \"a b\"] } # mine\n",
    ),
    edit(
        "multi-line strings, dates and quoted keys",
        "text = '''\n[mcp_servers.plexus]\n'''\nat = 1979-05-27T07:32:00Z\n\"a.b\".'c d' = inf\n",
        "text = '''\n[mcp_servers.plexus]\n'''\nat = 1979-05-27T07:32:00Z\n\"a.b\".'c d' = inf\n\n[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n",
    ),
    edit(
        "an existing entry with comments between its tables",
        "[mcp_servers.plexus]\ncommand = \"old\"\n\n# what it needs\n[mcp_servers.plexus.env]\nA = \"1\"\n# rest\n[other]\n",
        "[mcp_servers.plexus]\ncommand = \"/opt/plexus\"\nargs = [\"mcp\", \"--as\", \"a b\"]\n# rest\n[other]\n",
    ),
    refused(
        "an entry in two places",
        "[mcp_servers.plexus]\ncommand = \"old\"\n[other]\nb = 2\n[mcp_servers.plexus.env]\nA = \"1\"\n",
        "contains the entry in several places; merge them, or remove the entry",
    ),
    refused("a duplicate key", "a = 1\na = 2\n", "is not valid TOML: duplicate key on line 2"),
    refused("a duplicate table", "[a]\n[b]\n[a]\n", "is not valid TOML: duplicate key on line 3"),
    refused("JSON", "{\"mcp_servers\": {}}", "is not valid TOML: invalid key-value pair on line 1"),
    refused(
        "truncated within a secret",
        "ok = 1\ntoken = \"sk-secret",
        "is not valid TOML: invalid basic string on line 2",
    ),
    refused(
        "servers are a list",
        "a = 1\nmcp_servers = [1]\n",
        "has a value other than a table for `mcp_servers` on line 2",
    ),
    refused(
        "servers are an array of tables",
        "[[mcp_servers]]\na = 1\n",
        "has a value other than a table for `mcp_servers` on line 1",
    ),
    refused(
        "markers of a merge conflict",
        "a = 1\n<<<<<<< HEAD\nb = 2\n",
        "is not valid TOML: key with no value on line 2",
    ),
];

#[test]
fn edge_cases_are_edited_or_refused_exactly() {
    check(Syntax::Toml, &["mcp_servers", "plexus"], CASES);
}

/// Text that was appended in a separate table stays. Without a table header it would belong to our entry.
#[test]
fn appended_table_is_kept() {
    let path = ["mcp_servers", "plexus"];
    for before in ["a = 1", "a = 1\n", "", "# end"] {
        let edited = Syntax::Toml.set(before, &path, &super::ours()).unwrap();
        let with_more = format!("{}# more\n[other]\nb = 1\n", edited.text);
        let left = Syntax::Toml.undo(&with_more, &path, &edited.undo).unwrap();
        let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
        assert_eq!(left, format!("{before}{end}# more\n[other]\nb = 1\n"), "{before:?}");
    }
}
