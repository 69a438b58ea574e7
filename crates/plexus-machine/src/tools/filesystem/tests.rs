//! Property tests: an edit equals a plain replacement, and a refused change modifies nothing.

use std::collections::BTreeMap;

use plexus_kit::{Clock, Environment, Supervisor};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::policy::Policies;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(home.0.path().join("data")).unwrap();
        std::fs::create_dir(home.0.path().join("work")).unwrap();
        home
    }

    fn work(&self) -> std::path::PathBuf {
        self.0.path().join("work")
    }

    fn call(&self, arguments: Value) -> Result<Answer, CallError> {
        let home = self.0.path().display().to_string();
        let environment: Environment = [("HOME".to_owned(), home)].into_iter().collect();
        let data_dir = self.0.path().join("data");
        let machine = Machine {
            policy: Policies::open(&data_dir, &environment).unwrap(),
            data_dir,
            environment,
            supervisor: Supervisor::new(),
            clock: Clock::system(),
            launcher: None,
        };
        let call = FileCall {
            files: Files::for_machine(&machine),
            cancel: CancellationToken::new(),
            changing: Arc::default(),
            now: machine.clock.now(),
        };
        call.execute(&serde_json::from_value(arguments).unwrap())
    }

    fn all(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.work()).unwrap().flatten();
        entries.map(|e| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap())).collect()
    }
}

fn text() -> impl Strategy<Value = String> {
    // Few distinct pieces, so that a text often occurs, and occurs more than once.
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "ab",
        " ",
        "    ",
        "\t",
        "\n",
        "\r\n",
        "é",
        "x = 1",
        "end\n",
        "\u{1F600}",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// A file, and a text that often occurs in it.
fn file_and_part() -> impl Strategy<Value = (String, String)> {
    (text(), text(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(file, other, from, to, is_part)| {
            let boundaries: Vec<usize> = file.char_indices().map(|(at, _)| at).chain([file.len()]).collect();
            let (from, to) =
                (boundaries[from.index(boundaries.len())], boundaries[to.index(boundaries.len())]);
            let part = file[from.min(to)..from.max(to)].to_owned();
            (file, if is_part { part } else { other })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn exact_edit_equals_a_plain_replacement((file, old) in file_and_part(), new in text(), all: bool) {
        let home = Home::new();
        std::fs::write(home.work().join("f"), &file).unwrap();
        let edit = json!({ "action": "edit", "path": home.work().join("f"), "old": old, "new": new, "replace_all": all });
        let done = home.call(edit);
        let after = std::fs::read_to_string(home.work().join("f")).unwrap();
        let times = if old.is_empty() { 0 } else { file.matches(&old).count() };
        let is_text = !matches!(content::Encoding::of(file.as_bytes()), content::Encoding::Binary(_));
        if is_text && old != new && (times == 1 || times > 1 && all) {
            prop_assert!(done.is_ok());
            prop_assert_eq!(after, file.replace(&old, &new));
        } else {
            prop_assert!(done.is_err());
            prop_assert_eq!(after, file);
        }
    }

    #[test]
    fn smart_edit_changes_only_the_matched_lines((file, old) in file_and_part(), new in text()) {
        let home = Home::new();
        std::fs::write(home.work().join("f"), &file).unwrap();
        let edit = json!({ "action": "smart_edit", "path": home.work().join("f"), "old": old, "new": new });
        let done = home.call(edit);
        let after = std::fs::read_to_string(home.work().join("f")).unwrap();
        match done {
            Err(_) => prop_assert_eq!(after, file),
            Ok(answer) => prop_assert_eq!(answer.output.changes.unwrap()[0].replaced, Some(1)),
        }
    }

    #[test]
    fn patch_applies_the_output_of_diff(old in text(), new in text()) {
        prop_assume!(old != new && !old.is_empty() && !new.is_empty());
        // A patch adopts the line endings of the file, so only one kind is used here.
        let (old, new) = (old.replace('\r', ""), new.replace('\r', ""));
        prop_assume!(old != new);
        let home = Home::new();
        std::fs::write(home.work().join("f"), &old).unwrap();
        let patch = diff::unified(old.as_bytes(), new.as_bytes(), "a/f", "b/f", 3);
        let done = home.call(json!({ "action": "patch", "path": home.work(), "patch": patch }));
        prop_assert!(done.is_ok(), "{:?}\n{}", done, patch);
        prop_assert_eq!(std::fs::read_to_string(home.work().join("f")).unwrap(), new);
    }

    #[test]
    fn refused_patch_changes_no_file(
        files in prop::collection::vec((text(), text()), 1..4),
        wrong in text(),
        noise in any::<prop::sample::Index>(),
    ) {
        let home = Home::new();
        let mut patch = String::new();
        for (number, (old, new)) in files.iter().enumerate() {
            let name = format!("f{number}");
            std::fs::write(home.work().join(&name), old).unwrap();
            patch.push_str(&diff::unified(old.as_bytes(), new.as_bytes(), &format!("a/{name}"), &format!("b/{name}"), 1));
        }
        // Corrupt the patch at any position.
        let lines: Vec<&str> = patch.lines().collect();
        let at = noise.index(lines.len().max(1));
        let broken: String = lines
            .iter()
            .enumerate()
            .map(|(index, line)| if index == at { format!("-{wrong}\n") } else { format!("{line}\n") })
            .collect();
        let before = home.all();
        let done = home.call(json!({ "action": "patch", "path": home.work(), "patch": broken }));
        if done.is_err() {
            prop_assert_eq!(home.all(), before);
        }
    }

    #[test]
    fn patch_parser_accepts_any_text_without_panicking(patch in "(?s)(@@ -1,2 \\+1 @@\n|--- a/x\n\\+\\+\\+ b/x\n|diff --git a/x b/x\n|rename from .{0,9}\n|[-+ ].{0,6}\n|.{0,20})*") {
        let home = Home::new();
        std::fs::write(home.work().join("x"), "a\nb\n").unwrap();
        let before = home.all();
        if home.call(json!({ "action": "patch", "path": home.work(), "patch": patch })).is_err() {
            prop_assert_eq!(home.all(), before);
        }
    }
}

#[test]
fn action_names_match_their_serialized_form() {
    let schema = spec().typed::<Filesystem>().input_schema.to_string();
    for action in FileAction::ALL {
        let parsed: FileAction = serde_json::from_value(action.name().into()).unwrap();
        assert_eq!(parsed, action);
        assert!(schema.contains(action.name()));
    }
}
