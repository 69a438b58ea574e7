//! The quick start of the README on real terminals: a hub, `plexus connect`, and an agent that calls a tool. Snapshots hold
//! everything that the user reads.

use std::path::Path;

use plexus_testkit::AgentHome;
use plexus_testkit::model::{Script, ScriptedModel, Turn};

use super::{PROMPT, add, codex_config, todo};
use crate::pty::Terminal;

const README: &str = include_str!("../../../../../README.md");
const MAKEFILE: &str = include_str!("../../../../../Makefile");

/// The commands of the README's quick start, without their comments.
fn steps() -> Vec<&'static str> {
    let section = README.split("## Quick start").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its end");
    let blocks = section.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split("  #").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).collect()
}

/// The text with placeholders for what differs between runs.
fn with_placeholders(text: &str, home: &Path) -> String {
    let text = text
        .replace(&home.display().to_string(), "~")
        .replace(env!("CARGO_BIN_EXE_plexus"), "/usr/bin/plexus");
    let mut result = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        if let Some(at) = line.find("127.0.0.1:") {
            let port = at + "127.0.0.1:".len();
            let digits = line[port..].bytes().take_while(u8::is_ascii_digit).count();
            line.replace_range(port..port + digits, "PORT");
        }
        if let Some(at) = line.find("until 20") {
            line.replace_range(at + "until ".len().., "THEN.");
        }
        result.push_str(&line);
        result.push('\n');
    }
    result
}

#[test]
fn quick_start_leads_to_an_agent_that_calls_a_tool() {
    AgentHome::on_loopback("codex", async |agent_home| {
        let steps = steps();
        assert_eq!(steps[..3], ["make run", "make test", "plexus connect"], "{steps:?}");
        // `make run` builds the program that is tested here, and runs it like this.
        assert!(MAKEFILE.contains("/debug/plexus' up $(ARGS)"));

        let model = ScriptedModel::start(
            Script::new().turn(todo(add("milk"))).turn(Turn::text("Milk is on the list.")),
        )
        .await;
        let before = codex_config(&model);
        agent_home.write(".codex/config.toml", &before);
        let home = agent_home.path().to_owned();
        let path = format!("{}:{}", crate::program_folder(), agent_home.installed("bin").display());

        let mut hub_terminal = Terminal::shell(&home, &path);
        hub_terminal.expect_on_screen("$").await;
        hub_terminal.send("plexus up --listen 127.0.0.1:0 2>hub.log\r").await;
        hub_terminal.expect_on_screen("Stop with Ctrl-C.").await;
        insta::assert_snapshot!("new_user_hub", with_placeholders(&hub_terminal.screen_text(), &home));

        let mut terminal = Terminal::shell(&home, &path);
        terminal.expect_on_screen("$").await;
        terminal.send("plexus connect\r").await;
        terminal.expect_on_screen("Which agents should use Plexus?").await;
        terminal.expect_on_screen("escape to cancel]").await;
        insta::assert_snapshot!("new_user_choice", with_placeholders(&terminal.screen_text(), &home));
        terminal.send("\r").await;
        terminal.expect_on_screen("Write these changes? [y/N]").await;
        terminal.send("y\r").await;
        terminal.expect_on_screen("plexus disconnect codex\n$").await;
        insta::assert_snapshot!("new_user_connected", with_placeholders(&terminal.screen_text(), &home));

        // The agent gets a prompt and calls a tool.
        terminal.clear().await;
        let approve = "mcp_servers.plexus.default_tools_approval_mode=\"approve\"";
        terminal
            .send(&format!("codex exec -c '{approve}' --skip-git-repo-check '{PROMPT}' 2>agent.log\r"))
            .await;
        terminal.expect_on_screen("Milk is on the list.").await;
        model.assert_played();

        terminal.clear().await;
        terminal.send("plexus audit list | cut -f 4- | grep -c todo; plexus connect --status\r").await;
        terminal.expect_on_screen("local:codex").await;
        let shown = terminal.screen_text();
        assert!(shown.contains("\n1\n") && shown.contains("connected"), "{shown}");

        terminal.clear().await;
        terminal.send("plexus disconnect\r").await;
        terminal.expect_on_screen("Remove the connection? [y/N]").await;
        terminal.send("y\r").await;
        terminal.expect_on_screen("codex is disconnected.\n$").await;
        insta::assert_snapshot!("new_user_disconnected", with_placeholders(&terminal.screen_text(), &home));
        assert_eq!(std::fs::read_to_string(home.join(".codex/config.toml")).expect("its settings"), before);
        hub_terminal.send("\x03").await;
        hub_terminal.send("echo \"ended with\" $?\r").await;
        hub_terminal.expect_on_screen("\nended with 0").await;
    });
}
