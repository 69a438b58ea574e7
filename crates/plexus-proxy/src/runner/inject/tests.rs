use super::*;

const ID: &str = "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11";

fn args(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn chosen(agent: AgentKind, line: &str) -> AgentConversation {
    choose_conversation(agent, &args(line), None, "ab12").unwrap().0
}

/// The arguments injected before these.
fn injected_args(agent: AgentKind, line: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let run_folder = super::super::RunFolders::of(folder.path()).create("ab12").unwrap();
    let conversation = chosen(agent, line);
    let setup = AgentSetup {
        run: "ab12",
        program: std::path::Path::new("/bin/false"),
        folder: &run_folder,
        hub: None,
        conversation: &conversation,
        settings: &ProfileRun::default(),
        system_prompt: None,
        args: &args(line),
        environment: &Environment::default(),
        resume: false,
    };
    inject(agent, &setup).unwrap().args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
}

#[test]
fn claude_gets_a_session_id_unless_its_arguments_choose_one() {
    let known = AgentConversation::Known(ID.to_owned());
    for line in [
        format!("--session-id {ID}"),
        format!("--session-id={ID} -p hi"),
        format!("-p --resume {ID} hi"),
        format!("-r {ID}"),
    ] {
        assert_eq!(chosen(AgentKind::Claude, &line), known, "{line}");
        assert_eq!(injected_args(AgentKind::Claude, &line), Vec::<String>::new(), "{line}");
    }
    // A fork of a session is a new one, and arguments after `--` are not options.
    for line in [format!("--resume {ID} --fork-session"), format!("-p -- --resume {ID}"), String::new()] {
        let AgentConversation::Known(fresh) = chosen(AgentKind::Claude, &line) else { panic!("{line}") };
        assert!(is_uuid(&fresh) && fresh != ID, "{line}: {fresh}");
        assert!(injected_args(AgentKind::Claude, &line)[0].starts_with("--session-id="), "{line}");
    }
    // The resumed session is not known.
    for line in ["--continue", "-c -p hi", "--resume", "--resume a-name", "--from-pr 7"] {
        let (conversation, note) = choose_conversation(AgentKind::Claude, &args(line), None, "ab12").unwrap();
        assert_eq!(conversation, AgentConversation::Known("run-ab12".to_owned()), "{line}");
        assert!(note.is_some_and(|note| note.contains("claude:run-ab12")), "{line}");
        assert_eq!(injected_args(AgentKind::Claude, line), Vec::<String>::new(), "{line}");
    }
    for line in ["mcp list", "--version", "doctor"] {
        assert_eq!(injected_args(AgentKind::Claude, line), Vec::<String>::new(), "{line}");
    }
    assert!(
        choose_conversation(AgentKind::Claude, &args("--resume"), Some(ID), "ab12").is_err(),
        "two choices"
    );
}

#[test]
fn codex_chooses_its_thread_unless_it_resumes_one() {
    let known = AgentConversation::Known(ID.to_owned());
    assert_eq!(chosen(AgentKind::Codex, &format!("exec resume {ID} more")), known);
    assert_eq!(chosen(AgentKind::Codex, &format!("resume {ID}")), known);
    for line in ["", "exec hi", "resume --last"] {
        assert_eq!(chosen(AgentKind::Codex, line), AgentConversation::ChosenByAgent, "{line}");
    }
    for (line, interactive) in [("", true), ("resume --last", true), ("exec hi", false), ("mcp list", false)]
    {
        assert_eq!(codex::is_interactive(&args(line)), interactive, "{line}");
    }
}

#[test]
fn merge_keeps_existing_keys() {
    let mut config = json!({ "a": { "b": 1, "c": [1] }, "d": 2 });
    merge(&mut config, json!({ "a": { "c": [2], "e": 3 }, "f": {} }));
    assert_eq!(config, json!({ "a": { "b": 1, "c": [2], "e": 3 }, "d": 2, "f": {} }));
}
