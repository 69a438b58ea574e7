//! Instructions: a block in a file of the user, or a separate file.

use plexus_bridge::agents::{self, Agent, Scope};
use plexus_bridge::{
    Bridge, Bundle, Change, ConflictPolicy, Connection, InstructionContent, ProxyCommand, SyncResult,
};
use plexus_kit::{Clock, Environment};
use plexus_proto::api::ExternalAgentFileState;
use proptest::prelude::*;

use crate::home::{Home, PROGRAM, connection, content, error_text};

const FILE: &str = ".codex/AGENTS.md";
const BEGIN: &str = "<!-- plexus:begin (kept by Plexus; change its source, not this block) -->";
const END: &str = "<!-- plexus:end -->";

fn block(text: &str) -> String {
    format!("{BEGIN}\n## Character\n\n{text}\n{END}\n")
}

fn connected(before: &str) -> Home {
    let home = Home::new();
    home.write(FILE, before);
    home.connect("codex", &Scope::User, Some(&content("Be kind.")), ConflictPolicy::Skip).unwrap();
    home
}

fn problems(synced: &SyncResult) -> Vec<String> {
    synced.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_block_goes_in_and_comes_out() {
    let kind = block("Be kind.");
    let cases = [
        ("Mine.\n", format!("Mine.\n\n{kind}")),
        ("Mine.", format!("Mine.\n\n{kind}")),
        ("", kind.clone()),
        ("\u{feff}Mine.\r\nToo.\r\n", format!("\u{feff}Mine.\r\nToo.\r\n\r\n{}", kind.replace('\n', "\r\n"))),
        ("Mine.\r\nno end", format!("Mine.\r\nno end\r\n\r\n{}", kind.replace('\n', "\r\n"))),
        ("\n\n\n", format!("\n\n\n\n{kind}")),
        ("<!-- other:begin -->\n", format!("<!-- other:begin -->\n\n{kind}")),
    ];
    for (before, after) in cases {
        let home = connected(before);
        assert_eq!(home.read(FILE), after, "{before:?}");
        // The same content again changes nothing.
        assert!(home.bridge.sync(&content("Be kind."), None).unwrap().written.is_empty(), "{before:?}");
        home.bridge.sync(&content("Be brief."), None).unwrap();
        assert_eq!(home.read(FILE), after.replace("Be kind.", "Be brief."), "{before:?}");
        // Text around the block stays, and no two lines are joined.
        home.write(FILE, format!("{}Below.\n", home.read(FILE)));
        home.disconnect("codex", ConflictPolicy::Skip).unwrap();
        let newline = if before.contains("\r\n") { "\r\n" } else { "\n" };
        let end = if before.is_empty() || before.ends_with('\n') { "" } else { newline };
        assert_eq!(home.read(FILE), format!("{before}{end}Below.\n"), "{before:?}");
    }
}

#[test]
fn removed_instructions_are_removed_from_the_files() {
    let home = connected("Mine.\n");
    home.bridge.sync(&InstructionContent::default(), None).unwrap();
    assert_eq!(home.read(FILE), "Mine.\n");
    home.bridge.sync(&content("Again."), None).unwrap();
    assert_eq!(home.read(FILE), format!("Mine.\n\n{}", block("Again.")));
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "Mine.\n");
}

#[test]
fn block_changed_by_hand_is_not_overwritten() {
    let home = connected("Mine.\n");
    let changed = home.read(FILE).replace("Be kind.", "Be kind!");
    home.write(FILE, &changed);
    let expected = format!("{} has a block of Plexus that was changed by hand", home.path(FILE).display());
    let synced = home.bridge.sync(&content("Be brief."), None).unwrap();
    assert_eq!(problems(&synced), std::slice::from_ref(&expected));
    assert_eq!(home.states()[FILE], ExternalAgentFileState::Changed);
    assert_eq!(error_text(home.disconnect("codex", ConflictPolicy::Skip)), expected);
    assert_eq!(home.read(FILE), changed);
    let forced = home.connect("codex", &Scope::User, Some(&content("Be brief.")), ConflictPolicy::Replace);
    forced.unwrap();
    assert_eq!(home.read(FILE), format!("Mine.\n\n{}", block("Be brief.")));
    assert!(home.bridge.sync(&content("Be brief."), None).unwrap().problems.is_empty());
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "Mine.\n");
}

/// An editor or a version control system may normalize line ends; that is not a change by a person.
#[test]
fn other_line_ends_are_no_change() {
    let cases: [fn(&str) -> String; 3] =
        [|text| text.replace('\n', "\r\n"), |text| text.trim_end().to_owned(), |text| format!("{text}\n\n")];
    for other in cases {
        let home = connected("Mine.\n");
        let text = other(&home.read(FILE));
        home.write(FILE, text);
        assert_eq!(home.states()[FILE], ExternalAgentFileState::Current);
        let synced = home.bridge.sync(&content("Be brief."), None).unwrap();
        assert_eq!(problems(&synced), [""; 0]);
        home.disconnect("codex", ConflictPolicy::Skip).unwrap();
        assert_eq!(home.read(FILE).trim(), "Mine.");
    }
}

#[test]
fn block_removed_by_hand_is_not_restored_automatically() {
    let home = connected("Mine.\n");
    home.write(FILE, "Mine, now.\n");
    let expected = format!("{} had a block of Plexus that was removed by hand", home.path(FILE).display());
    let synced = home.bridge.sync(&content("Be brief."), None).unwrap();
    assert_eq!(problems(&synced), [expected]);
    assert_eq!(home.read(FILE), "Mine, now.\n");
    assert_eq!(home.states()[FILE], ExternalAgentFileState::Removed);
    // It is restored only on request.
    home.connect("codex", &Scope::User, Some(&content("Be brief.")), ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), format!("Mine, now.\n\n{}", block("Be brief.")));
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "Mine, now.\n");
}

#[test]
fn marks_that_form_no_block_are_left() {
    let block = block("x");
    let texts = [
        format!("{BEGIN}\nno end\n"),
        format!("{END}\n"),
        format!("{END}\n{BEGIN}\n"),
        format!("{block}{block}"),
        format!("{BEGIN}\n{block}"),
    ];
    for text in texts {
        let home = Home::new();
        home.write(FILE, &text);
        for policy in [ConflictPolicy::Skip, ConflictPolicy::Replace] {
            let result = home.connect("codex", &Scope::User, Some(&content("Be kind.")), policy);
            let expected =
                format!("{} has markers of Plexus that do not form one block", home.path(FILE).display());
            assert_eq!(error_text(result), expected);
            assert_eq!(home.read(FILE), text);
        }
    }
    // A complete block of unknown origin is left as well.
    let home = Home::new();
    home.write(FILE, &block);
    let result = home.connect("codex", &Scope::User, Some(&content("Be kind.")), ConflictPolicy::Skip);
    assert_eq!(
        error_text(result),
        format!("{} has a block of Plexus that is not in the ledger", home.path(FILE).display())
    );
}

/// The instructions can neither end their block nor begin another one.
#[test]
fn markers_in_the_instructions_are_escaped() {
    let home = Home::new();
    home.write(FILE, "Mine.\n");
    let text = content(&format!("Do this.\n{END}\n{BEGIN}\nAnd that."));
    home.connect("codex", &Scope::User, Some(&text), ConflictPolicy::Skip).unwrap();
    assert!(home.bridge.sync(&text, None).unwrap().written.is_empty());
    home.write(FILE, format!("Above.\n{}", home.read(FILE)));
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "Above.\nMine.\n");
}

#[test]
fn a_file_that_two_agents_read_has_one_block_until_both_are_gone() {
    let home = Home::new();
    home.write("project/AGENTS.md", "Mine.\n");
    let (scope, text) = (home.project(), content(&"A line of it.\n".repeat(1500)));
    for agent in ["codex", "opencode"] {
        home.connect(agent, &scope, Some(&text), ConflictPolicy::Skip).unwrap();
    }
    let file = home.read("project/AGENTS.md");
    assert_eq!(file.matches(BEGIN).count(), 1);
    // The limit of the agent that reads least applies to every write.
    assert!(file.len() <= 16 << 10, "{}", file.len());
    assert!(home.bridge.sync(&text, None).unwrap().written.is_empty());
    // Both are planned before either is applied, as when all agents are disconnected at once.
    let keys = ["codex", "opencode"].map(|agent| home.key(agent, &scope));
    let plans = keys.each_ref().map(|key| home.bridge.plan_disconnect(key, ConflictPolicy::Skip).unwrap());
    let is_text = |change: &&Change| change.path.ends_with("AGENTS.md");
    for change in plans.iter().flat_map(|plan| &plan.changes).filter(is_text) {
        assert!(!change.is_needed(), "the other one needs it, as far as is known");
    }
    for (key, plan) in keys.iter().zip(&plans) {
        assert!(home.read("project/AGENTS.md").contains(BEGIN), "{key}");
        for change in &plan.changes {
            home.bridge.apply(change, None).unwrap();
        }
        assert!(home.bridge.forget(key).unwrap(), "{key}");
    }
    assert_eq!(home.tree().keys().collect::<Vec<_>>(), ["project", "project/AGENTS.md"]);
    assert_eq!(home.read("project/AGENTS.md"), "Mine.\n");
}

#[test]
fn a_paused_connection_is_left_as_it_is() {
    let home = connected("Mine.\n");
    home.bridge.update("codex", |connection| connection.paused = true).unwrap();
    home.bridge.sync(&content("Be brief."), None).unwrap();
    assert_eq!(home.read(FILE), format!("Mine.\n\n{}", block("Be kind.")));
    // A paused connection is synchronized if it is named.
    home.bridge.sync(&content("Be brief."), Some("codex")).unwrap();
    assert_eq!(home.read(FILE), format!("Mine.\n\n{}", block("Be brief.")));
}

#[test]
fn separate_file_changed_by_hand_is_not_overwritten() {
    const OWN: &str = "project/.cursor/rules/plexus.mdc";
    let home = Home::new();
    home.write("project/README.md", "x");
    let (scope, before) = (home.project(), home.tree());
    home.connect("cursor", &scope, Some(&content("Be kind.")), ConflictPolicy::Skip).unwrap();
    let own = home.read(OWN);
    assert_eq!(own, "---\ndescription: Kept by Plexus\nalwaysApply: true\n---\n\n## Character\n\nBe kind.\n");
    std::fs::remove_file(home.path(OWN)).unwrap();
    let synced = home.bridge.sync(&content("Be brief."), None).unwrap();
    assert_eq!(problems(&synced), [format!("{} was removed by somebody", home.path(OWN).display())]);
    assert!(!home.path(OWN).exists());
    home.connect("cursor", &scope, Some(&content("Be kind.")), ConflictPolicy::Skip).unwrap();
    home.write(OWN, "mine\n");
    let expected = format!("{} was changed since Plexus wrote it", home.path(OWN).display());
    assert_eq!(
        problems(&home.bridge.sync(&content("Be brief."), None).unwrap()),
        std::slice::from_ref(&expected)
    );
    let key = home.key("cursor", &scope);
    assert_eq!(error_text(home.disconnect(&key, ConflictPolicy::Skip)), expected);
    assert_eq!(home.read(OWN), "mine\n");
    home.disconnect(&key, ConflictPolicy::Replace).unwrap();
    assert_eq!(home.tree(), before);
}

#[test]
fn identity_files_that_are_no_files_are_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("SOUL.md"), "\u{feff}# Who\r\nMe.\r\n").unwrap();
    std::fs::write(path("USER.md"), "  \n").unwrap();
    std::fs::create_dir(path("IDENTITY.md")).unwrap();
    std::os::unix::fs::symlink("SOUL.md", path("TOOLS.md")).unwrap();
    std::fs::write(path("MEMORY.md"), b"\xff").unwrap();
    std::fs::write(path("BIG.md"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let names = ["SOUL.md", "USER.md", "IDENTITY.md", "TOOLS.md", "MEMORY.md", "BIG.md", "NONE.md"];
    let bundle = Bundle::read(folder.path(), &names.map(str::to_owned));
    assert_eq!(bundle.files, [("SOUL.md".to_owned(), "# Who\nMe.".to_owned())]);
    let omitted = [
        ("IDENTITY.md", "is not a regular file"),
        ("TOOLS.md", "is a symbolic link"),
        ("MEMORY.md", "is not UTF-8: byte 0 is not part of a valid character"),
        ("BIG.md", "is longer than 1024 KiB"),
    ];
    let omitted = omitted.map(|(name, why)| format!("{} {why}", path(name).display()));
    assert_eq!(bundle.omitted, omitted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// The rendered text never exceeds the limit, and it is complete if it fits.
    #[test]
    fn instructions_are_never_longer_than_they_may_be(
        texts in prop::collection::vec("(# )?[a-zé☃\n ]{0,300}", 0..5),
        limit in 0_usize..1200,
    ) {
        let texts: Vec<String> = texts.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect();
        let named = |(at, text): (usize, &String)| (format!("F{at}.md"), text.clone());
        let bundle = Bundle {
            folder: "/w".into(),
            files: texts.iter().enumerate().map(named).collect(),
            omitted: Vec::new(),
        };
        let all = bundle.render(usize::MAX >> 1);
        prop_assert!(texts.iter().all(|text| all.contains(text)));
        let some = bundle.render(limit);
        prop_assert!(some.len() <= limit, "{} of {limit} bytes", some.len());
        if all.len() + 2 <= limit {
            prop_assert_eq!(some, all);
        }
    }
}

#[test]
fn world_writable_identity_file_is_omitted() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("SOUL.md", 0o666), ("USER.md", 0o664)] {
        std::fs::write(folder.path().join(name), "text").unwrap();
        std::fs::set_permissions(folder.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let bundle = Bundle::read(folder.path(), &["SOUL.md".to_owned(), "USER.md".to_owned()]);
    assert_eq!(bundle.files, [("USER.md".to_owned(), "text".to_owned())]);
    let [omitted] = bundle.omitted.as_slice() else { panic!("{:?}", bundle.omitted) };
    assert!(omitted.contains("SOUL.md is world-writable"), "{omitted}");
}

#[test]
fn connection_keeps_its_file_locations_in_other_environments() {
    let folder = tempfile::tempdir().unwrap();
    let path_of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bridge = |variables: &[(&str, String)]| {
        let environment: Environment =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        (Bridge::new(&folder.path().join("connect"), &environment, Clock::system()), environment)
    };
    let (person, environment) = bridge(&[("HOME", path_of("person")), ("CODEX_HOME", path_of("codex"))]);
    let codex = Agent::by_name("codex").unwrap();
    let proxy_command = ProxyCommand { program: PROGRAM.to_owned(), args: vec!["mcp".to_owned()] };
    let plan = person
        .plan_connect(codex, &Scope::User, &proxy_command, Some(&content("one")), ConflictPolicy::Skip)
        .unwrap();
    let made = Connection {
        variables: agents::location_variables(&environment),
        ..connection("codex", &Scope::User, true)
    };
    for change in &plan.changes {
        person.apply(change, Some(&made)).unwrap();
    }
    // A service has another home folder and not the variables of the person's shell.
    let (service, _) = bridge(&[("HOME", path_of("service"))]);
    let synced = service.sync(&content("two"), None).unwrap();
    assert_eq!(synced.written, [folder.path().join("codex/AGENTS.md")], "{synced:?}");
    assert!(std::fs::read_to_string(folder.path().join("codex/AGENTS.md")).unwrap().contains("two"));
    let plan = service.plan_disconnect("codex", ConflictPolicy::Skip).unwrap();
    for change in &plan.changes {
        service.apply(change, None).unwrap();
    }
    assert!(!folder.path().join("codex").exists() && !folder.path().join("service").exists());
}
