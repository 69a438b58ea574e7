//! Files of any layout, through all that is done to them on a disk: connected and disconnected, they are as they were.

use plexus_bridge::Policy;
use plexus_bridge::agents::Scope;
use proptest::prelude::*;

use crate::home::{Home, PROGRAM, content};

/// An agent of each format: its file, lines that may stand in it, and what frames them.
struct Format {
    agent: &'static str,
    file: &'static str,
    lines: &'static [&'static str],
    open: &'static str,
    close: &'static str,
    comma: &'static str,
}

const FORMATS: [Format; 4] = [
    Format {
        agent: "codex",
        file: ".codex/config.toml",
        lines: &[
            "# a remark",
            "a = 1",
            "  b = \"x\"  # why",
            "",
            "c.d = [1,\n  2]",
            "[t]",
            "k = { x = 1 }",
            "[[l]]",
            "\"é\" = '''\n[x]\n'''",
            "[mcp_servers.other]",
            "command = \"y\"",
            "[mcp_servers]",
            "[mcp_servers.other.env]",
        ],
        open: "",
        close: "",
        comma: "",
    },
    Format {
        agent: "claude-code",
        file: ".claude.json",
        lines: &[
            "\"a\": 1",
            "  \"b\": [ {} ]",
            "\"é\" : \"\\u00e9\"",
            "\"mcpServers\": {}",
            "\"mcpServers\": { \"x\": {} }",
            "\"c\": {\n}",
        ],
        open: "{",
        close: "}",
        comma: ",",
    },
    Format {
        agent: "cursor",
        file: ".cursor/mcp.json",
        lines: &[
            "\"a\": 1 // why",
            "/* b */ \"b\": [ {}, ]",
            "\"é\" : \"\\u00e9\"",
            "\"mcpServers\": {}",
            "\"mcpServers\": { \"x\": {}, }",
            "// \"mcpServers\": {}\n\"d\": null",
            "\"c\": {\n} /* , */",
        ],
        open: "// top\n{",
        close: "}",
        comma: ",",
    },
    Format {
        agent: "goose",
        file: ".config/goose/config.yaml",
        lines: &[
            "# a remark",
            "a: 1",
            "b: \"x\"  # why",
            "",
            "c:\n- 1\n- x: 2",
            "d: {e: [1]}",
            "\"é\": |\n  extensions:\n",
            "extensions:",
            "extensions:\n  dev:\n    enabled: true",
            "extensions: {}",
            "extensions: {dev: {}}",
        ],
        open: "",
        close: "",
        comma: "",
    },
];

#[derive(Debug, Clone)]
struct File {
    format: usize,
    text: String,
    /// A line that somebody adds at the top, where the format has remarks or a place for it.
    elsewhere: bool,
}

fn file() -> impl Strategy<Value = File> {
    let lines = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
    (0..FORMATS.len(), lines, any::<[bool; 5]>()).prop_map(|(format, lines, flags)| {
        let form = &FORMATS[format];
        let lines: Vec<&str> = lines.iter().map(|line| form.lines[line.index(form.lines.len())]).collect();
        let comma = if flags[0] { format!("{}\n", form.comma) } else { format!("{}\n\n", form.comma) };
        let trailing = if form.agent == "cursor" && flags[1] && !lines.is_empty() { "," } else { "" };
        let end = if flags[2] { "\n" } else { "" };
        let mut text = format!("{}\n{}{trailing}\n{}{end}", form.open, lines.join(&comma), form.close);
        if flags[3] {
            text = text.replace('\n', "\r\n");
        }
        File { format, text, elsewhere: flags[4] }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disconnecting_undoes_connecting(file in file(), rules in prop::option::of("[ -~\n\r]{0,40}")) {
        let home = Home::new();
        let form = &FORMATS[file.format];
        home.write(form.file, &file.text);
        let rules_file = match form.agent {
            "codex" => ".codex/AGENTS.md",
            "claude-code" => ".claude/CLAUDE.md",
            _ => ".config/goose/.goosehints",
        };
        if let Some(rules) = &rules {
            home.write(rules_file, rules);
        }
        let before = home.tree();
        let connected = home.connect(form.agent, &Scope::User, Some(&content("Be kind.")), Policy::Skip);
        let text = home.read(form.file);
        if connected.is_err() {
            prop_assert_eq!(&text, &file.text);
        } else {
            prop_assert!(text.contains(PROGRAM));
        }
        let top = match form.agent {
            "cursor" => "// new\n",
            "claude-code" => "\n",
            _ => "# new\n",
        };
        let mut expected = before;
        if file.elsewhere {
            home.write(form.file, format!("{top}{text}"));
            let theirs = expected.get_mut(form.file).and_then(Option::as_mut).unwrap();
            theirs.1 = format!("{top}{}", file.text).into_bytes();
        }
        home.disconnect(form.agent, Policy::Skip).unwrap();
        prop_assert_eq!(home.tree(), expected, "{} by way of {}", file.text, text);
    }
}
