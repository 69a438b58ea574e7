use super::*;

const ID: &str = "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11";

fn args(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn chosen(agent: AgentKind, line: &str) -> Conversation {
    choose(agent, &args(line), None, "ab12").unwrap().0
}

/// What the agent is started with in front of these arguments.
fn given(agent: AgentKind, line: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let scratch = super::super::Runs::of(folder.path()).create("ab12").unwrap();
    let conversation = chosen(agent, line);
    let wiring = Wiring {
        run: "ab12",
        program: std::path::Path::new("/bin/false"),
        scratch: &scratch,
        wires: None,
        conversation: &conversation,
        settings: &ProfileRun::default(),
        system_prompt: None,
        args: &args(line),
        environment: &Environment::default(),
        again: false,
    };
    inject(agent, &wiring).unwrap().args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
}

#[test]
fn claude_is_given_a_session_unless_its_arguments_choose_one() {
    let known = Conversation::Known(ID.to_owned());
    for line in [
        format!("--session-id {ID}"),
        format!("--session-id={ID} -p hi"),
        format!("-p --resume {ID} hi"),
        format!("-r {ID}"),
    ] {
        assert_eq!(chosen(AgentKind::Claude, &line), known, "{line}");
        assert_eq!(given(AgentKind::Claude, &line), Vec::<String>::new(), "{line}");
    }
    // A fork of a session is another one, and so is what only looks like an option.
    for line in [format!("--resume {ID} --fork-session"), format!("-p -- --resume {ID}"), String::new()] {
        let Conversation::Known(fresh) = chosen(AgentKind::Claude, &line) else { panic!("{line}") };
        assert!(is_uuid(&fresh) && fresh != ID, "{line}: {fresh}");
        assert!(given(AgentKind::Claude, &line)[0].starts_with("--session-id="), "{line}");
    }
    // What it goes on with is found out by itself.
    for line in ["--continue", "-c -p hi", "--resume", "--resume a-name", "--from-pr 7"] {
        let (conversation, note) = choose(AgentKind::Claude, &args(line), None, "ab12").unwrap();
        assert_eq!(conversation, Conversation::Known("run-ab12".to_owned()), "{line}");
        assert!(note.is_some_and(|note| note.contains("claude:run-ab12")), "{line}");
        assert_eq!(given(AgentKind::Claude, line), Vec::<String>::new(), "{line}");
    }
    for line in ["mcp list", "--version", "doctor"] {
        assert_eq!(given(AgentKind::Claude, line), Vec::<String>::new(), "{line}");
    }
    assert!(choose(AgentKind::Claude, &args("--resume"), Some(ID), "ab12").is_err(), "two choices");
}

#[test]
fn codex_names_its_thread_unless_it_resumes_one() {
    let known = Conversation::Known(ID.to_owned());
    assert_eq!(chosen(AgentKind::Codex, &format!("exec resume {ID} more")), known);
    assert_eq!(chosen(AgentKind::Codex, &format!("resume {ID}")), known);
    for line in ["", "exec hi", "resume --last"] {
        assert_eq!(chosen(AgentKind::Codex, line), Conversation::Told, "{line}");
    }
    for (line, interactive) in [("", true), ("resume --last", true), ("exec hi", false), ("mcp list", false)]
    {
        assert_eq!(codex::is_interactive(&args(line)), interactive, "{line}");
    }
}

#[test]
fn what_is_merged_keeps_what_was_there() {
    let mut config = json!({ "a": { "b": 1, "c": [1] }, "d": 2 });
    merge(&mut config, json!({ "a": { "c": [2], "e": 3 }, "f": {} }));
    assert_eq!(config, json!({ "a": { "b": 1, "c": [2], "e": 3 }, "d": 2, "f": {} }));
}
