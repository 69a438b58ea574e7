//! Instructions: a block in a file of the person's, or a file of our own.

use plexus_bridge::agents::{self, Agent, Scope};
use plexus_bridge::{Bridge, Bundle, Change, Connection, Content, Policy, Synced, Wiring};
use plexus_kit::{Clock, Environment};
use plexus_proto::api::ExternalAgentFileState;
use proptest::prelude::*;

use crate::home::{Home, PROGRAM, connection, content, why};

const FILE: &str = ".codex/AGENTS.md";
const BEGIN: &str = "<!-- plexus:begin (kept by Plexus; change its source, not this block) -->";
const END: &str = "<!-- plexus:end -->";

fn block(text: &str) -> String {
    format!("{BEGIN}\n## Character\n\n{text}\n{END}\n")
}

fn connected(before: &str) -> Home {
    let home = Home::new();
    home.write(FILE, before);
    home.connect("codex", &Scope::User, Some(&content("Be kind.")), Policy::Skip).unwrap();
    home
}

fn problems(synced: &Synced) -> Vec<String> {
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
        // The same again changes nothing.
        assert!(home.bridge.sync(&content("Be kind."), None).unwrap().written.is_empty(), "{before:?}");
        home.bridge.sync(&content("Be brief."), None).unwrap();
        assert_eq!(home.read(FILE), after.replace("Be kind.", "Be brief."), "{before:?}");
        // What is written around it stays, and no line of theirs is joined to another.
        home.write(FILE, format!("{}Below.\n", home.read(FILE)));
        home.disconnect("codex", Policy::Skip).unwrap();
        let newline = if before.contains("\r\n") { "\r\n" } else { "\n" };
        let end = if before.is_empty() || before.ends_with('\n') { "" } else { newline };
        assert_eq!(home.read(FILE), format!("{before}{end}Below.\n"), "{before:?}");
    }
}

#[test]
fn instructions_that_are_no_more_go_from_the_files() {
    let home = connected("Mine.\n");
    home.bridge.sync(&Content::default(), None).unwrap();
    assert_eq!(home.read(FILE), "Mine.\n");
    home.bridge.sync(&content("Again."), None).unwrap();
    assert_eq!(home.read(FILE), format!("Mine.\n\n{}", block("Again.")));
    home.disconnect("codex", Policy::Skip).unwrap();
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
    assert_eq!(why(home.disconnect("codex", Policy::Skip)), expected);
    assert_eq!(home.read(FILE), changed);
    let forced = home.connect("codex", &Scope::User, Some(&content("Be brief.")), Policy::Replace);
    forced.unwrap();
    assert_eq!(home.read(FILE), format!("Mine.\n\n{}", block("Be brief.")));
    assert!(home.bridge.sync(&content("Be brief."), None).unwrap().problems.is_empty());
    home.disconnect("codex", Policy::Skip).unwrap();
    assert_eq!(home.read(FILE), "Mine.\n");
}

/// An editor or a version control that puts line ends right is no person who has changed the words.
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
        home.disconnect("codex", Policy::Skip).unwrap();
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
    // Only when somebody asks for it.
    home.connect("codex", &Scope::User, Some(&content("Be brief.")), Policy::Skip).unwrap();
    assert_eq!(home.read(FILE), format!("Mine, now.\n\n{}", block("Be brief.")));
    home.disconnect("codex", Policy::Skip).unwrap();
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
        for policy in [Policy::Skip, Policy::Replace] {
            let result = home.connect("codex", &Scope::User, Some(&content("Be kind.")), policy);
            let expected =
                format!("{} has markers of Plexus that do not form one block", home.path(FILE).display());
            assert_eq!(why(result), expected);
            assert_eq!(home.read(FILE), text);
        }
    }
    // And one that is whole, and of somebody else.
    let home = Home::new();
    home.write(FILE, &block);
    let result = home.connect("codex", &Scope::User, Some(&content("Be kind.")), Policy::Skip);
    assert_eq!(
        why(result),
        format!("{} has a block of Plexus that is not in the ledger", home.path(FILE).display())
    );
}

/// Nothing that is in the instructions ends their block, or begins another.
#[test]
fn marks_in_the_instructions_are_no_marks() {
    let home = Home::new();
    home.write(FILE, "Mine.\n");
    let text = content(&format!("Do this.\n{END}\n{BEGIN}\nAnd that."));
    home.connect("codex", &Scope::User, Some(&text), Policy::Skip).unwrap();
    assert!(home.bridge.sync(&text, None).unwrap().written.is_empty());
    home.write(FILE, format!("Above.\n{}", home.read(FILE)));
    home.disconnect("codex", Policy::Skip).unwrap();
    assert_eq!(home.read(FILE), "Above.\nMine.\n");
}

#[test]
fn a_file_that_two_agents_read_has_one_block_until_both_are_gone() {
    let home = Home::new();
    home.write("project/AGENTS.md", "Mine.\n");
    let (scope, text) = (home.project(), content(&"A line of it.\n".repeat(1500)));
    for agent in ["codex", "opencode"] {
        home.connect(agent, &scope, Some(&text), Policy::Skip).unwrap();
    }
    let file = home.read("project/AGENTS.md");
    assert_eq!(file.matches(BEGIN).count(), 1);
    // As long as the one that reads least can read, and not one length and then the other.
    assert!(file.len() <= 16 << 10, "{}", file.len());
    assert!(home.bridge.sync(&text, None).unwrap().written.is_empty());
    // Both are planned before either is done, as for all agents at once.
    let keys = ["codex", "opencode"].map(|agent| home.key(agent, &scope));
    let plans = keys.each_ref().map(|key| home.bridge.plan_disconnect(key, Policy::Skip).unwrap());
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
    // Unless it is named.
    home.bridge.sync(&content("Be brief."), Some("codex")).unwrap();
    assert_eq!(home.read(FILE), format!("Mine.\n\n{}", block("Be brief.")));
}

#[test]
fn separate_file_changed_by_hand_is_not_overwritten() {
    const OWN: &str = "project/.cursor/rules/plexus.mdc";
    let home = Home::new();
    home.write("project/README.md", "x");
    let (scope, before) = (home.project(), home.tree());
    home.connect("cursor", &scope, Some(&content("Be kind.")), Policy::Skip).unwrap();
    let own = home.read(OWN);
    assert_eq!(own, "---\ndescription: Kept by Plexus\nalwaysApply: true\n---\n\n## Character\n\nBe kind.\n");
    std::fs::remove_file(home.path(OWN)).unwrap();
    let synced = home.bridge.sync(&content("Be brief."), None).unwrap();
    assert_eq!(problems(&synced), [format!("{} was removed by somebody", home.path(OWN).display())]);
    assert!(!home.path(OWN).exists());
    home.connect("cursor", &scope, Some(&content("Be kind.")), Policy::Skip).unwrap();
    home.write(OWN, "mine\n");
    let expected = format!("{} was changed since Plexus wrote it", home.path(OWN).display());
    assert_eq!(
        problems(&home.bridge.sync(&content("Be brief."), None).unwrap()),
        std::slice::from_ref(&expected)
    );
    let key = home.key("cursor", &scope);
    assert_eq!(why(home.disconnect(&key, Policy::Skip)), expected);
    assert_eq!(home.read(OWN), "mine\n");
    home.disconnect(&key, Policy::Replace).unwrap();
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
    let left_out = [
        ("IDENTITY.md", "is not a regular file"),
        ("TOOLS.md", "is a symbolic link"),
        ("MEMORY.md", "is not UTF-8: byte 0 is not part of a valid character"),
        ("BIG.md", "is longer than 1024 KiB"),
    ];
    let left_out = left_out.map(|(name, why)| format!("{} {why}", path(name).display()));
    assert_eq!(bundle.left_out, left_out);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// However long the files are, what is rendered of them is not longer than asked for, and all of it where it fits.
    #[test]
    fn instructions_are_never_longer_than_they_may_be(
        texts in prop::collection::vec("(# )?[a-zé☃\n ]{0,300}", 0..5),
        most in 0_usize..1200,
    ) {
        let texts: Vec<String> = texts.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect();
        let named = |(at, text): (usize, &String)| (format!("F{at}.md"), text.clone());
        let bundle = Bundle {
            folder: "/w".into(),
            files: texts.iter().enumerate().map(named).collect(),
            left_out: Vec::new(),
        };
        let all = bundle.rendered(usize::MAX >> 1);
        prop_assert!(texts.iter().all(|text| all.contains(text)));
        let some = bundle.rendered(most);
        prop_assert!(some.len() <= most, "{} of {most} bytes", some.len());
        if all.len() + 2 <= most {
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
    let [left_out] = bundle.left_out.as_slice() else { panic!("{:?}", bundle.left_out) };
    assert!(left_out.contains("SOUL.md is world-writable"), "{left_out}");
}

#[test]
fn a_connection_stays_where_it_was_made_whoever_looks_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let there = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bridge = |variables: &[(&str, String)]| {
        let environment: Environment =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        (Bridge::new(&folder.path().join("connect"), &environment, Clock::system()), environment)
    };
    let (person, environment) = bridge(&[("HOME", there("person")), ("CODEX_HOME", there("codex"))]);
    let codex = Agent::named("codex").unwrap();
    let wiring = Wiring { program: PROGRAM.to_owned(), args: vec!["mcp".to_owned()] };
    let plan =
        person.plan_connect(codex, &Scope::User, &wiring, Some(&content("one")), Policy::Skip).unwrap();
    let made =
        Connection { variables: agents::variables(&environment), ..connection("codex", &Scope::User, true) };
    for change in &plan.changes {
        person.apply(change, Some(&made)).unwrap();
    }
    // A service has another home and knows nothing of the person's shell.
    let (service, _) = bridge(&[("HOME", there("service"))]);
    let synced = service.sync(&content("two"), None).unwrap();
    assert_eq!(synced.written, [folder.path().join("codex/AGENTS.md")], "{synced:?}");
    assert!(std::fs::read_to_string(folder.path().join("codex/AGENTS.md")).unwrap().contains("two"));
    let plan = service.plan_disconnect("codex", Policy::Skip).unwrap();
    for change in &plan.changes {
        service.apply(change, None).unwrap();
    }
    assert!(!folder.path().join("codex").exists() && !folder.path().join("service").exists());
}
