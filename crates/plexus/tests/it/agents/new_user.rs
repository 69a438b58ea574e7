//! A new user's way by the README, on real terminals: a hub, `plexus connect`, and an agent that calls a tool. Everything that
//! is to be read on the way is compared with what was read the last time.

use std::path::Path;

use plexus_testkit::AgentHome;
use plexus_testkit::model::{Script, ScriptedModel, Turn};

use super::{PROMPT, add, todo};
use crate::screen::Screen;

const README: &str = include_str!("../../../../../README.md");
const MAKEFILE: &str = include_str!("../../../../../Makefile");

/// Commands of the README's first steps, without what it says of them.
fn steps() -> Vec<&'static str> {
    let section = README.split("## Quick start").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its end");
    let blocks = section.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split("  #").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).collect()
}

/// What is the same for everybody.
fn settled(text: &str, home: &Path) -> String {
    let text = text
        .replace(&home.display().to_string(), "~")
        .replace(env!("CARGO_BIN_EXE_plexus"), "/usr/bin/plexus");
    let mut settled = String::new();
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
        settled.push_str(&line);
        settled.push('\n');
    }
    settled
}

#[test]
fn a_new_user_gets_by_the_readme_from_nothing_to_an_agent_that_calls_a_tool() {
    AgentHome::on_loopback("codex", async |given| {
        let steps = steps();
        assert_eq!(steps[..3], ["make run", "make test", "plexus connect"], "{steps:?}");
        // What `make run` builds is what is tested here; what it runs is this.
        assert!(MAKEFILE.contains("/debug/plexus' up $(ARGS)"));

        let model = ScriptedModel::start(
            Script::new().turn(todo(add("milk"))).turn(Turn::text("Milk is on the list.")),
        )
        .await;
        let before = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\n\
             [analytics]\nenabled = false\n\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}\"\n\
             wire_api = \"responses\"\nrequires_openai_auth = false\n",
            model.openai_url()
        );
        given.write(".codex/config.toml", &before);
        let home = given.path().to_owned();
        let programs =
            Path::new(env!("CARGO_BIN_EXE_plexus")).parent().expect("a folder").display().to_string();
        let path = format!("{programs}:{}:/usr/bin:/bin", given.installed("bin").display());
        let variables = [("PATH", path)];

        let mut first = Screen::open(&home, &variables);
        first.sees("$").await;
        first.types("plexus up --listen 127.0.0.1:0 2>hub.log\r").await;
        first.sees("Stop with Ctrl-C.").await;
        insta::assert_snapshot!("new_user_hub", settled(&first.text(), &home));

        let mut second = Screen::open(&home, &variables);
        second.sees("$").await;
        second.types("plexus connect\r").await;
        second.sees("Which agents should use Plexus?").await;
        second.sees("escape to leave]").await;
        insta::assert_snapshot!("new_user_choice", settled(&second.text(), &home));
        second.types("\r").await;
        second.sees("Write these changes? [y/N]").await;
        second.types("y\r").await;
        second.sees("plexus disconnect codex\n$").await;
        insta::assert_snapshot!("new_user_connected", settled(&second.text(), &home));

        // The agent is asked, and calls a tool.
        second.cleared().await;
        let approve = "mcp_servers.plexus.default_tools_approval_mode=\"approve\"";
        second
            .types(&format!("codex exec -c '{approve}' --skip-git-repo-check '{PROMPT}' 2>agent.log\r"))
            .await;
        second.sees("Milk is on the list.").await;
        model.assert_played();

        second.cleared().await;
        second.types("plexus audit list | cut -f 4- | grep -c todo; plexus connect --status\r").await;
        second.sees("local:codex").await;
        let seen = second.text();
        assert!(seen.contains("\n1\n") && seen.contains("connected"), "{seen}");

        second.cleared().await;
        second.types("plexus disconnect\r").await;
        second.sees("Remove the connection? [y/N]").await;
        second.types("y\r").await;
        second.sees("codex is disconnected.\n$").await;
        insta::assert_snapshot!("new_user_disconnected", settled(&second.text(), &home));
        assert_eq!(std::fs::read_to_string(home.join(".codex/config.toml")).expect("its settings"), before);
        first.types("\x03").await;
        first.types("echo \"ended with\" $?\r").await;
        first.sees("\nended with 0").await;
    });
}
