//! What the runner passes to an agent: credential, configuration and arguments.

use serde_json::{Value, json};

use super::{RunnerHome, end, tree};

/// An agent that records its environment, arguments and configuration, and waits for the file `go`.
const RECORDING_AGENT: &str = r#"
env -0 > launch.env
tr '\0' '\n' < /proc/$$/cmdline > launch.args
for arg; do
  case $arg in --mcp-config=*) cp "${arg#*=}" launch.mcp;; --settings=*) cp "${arg#*=}" launch.settings;; esac
done
[[ -z ${PLEXUS_RUN_CONFIG:-} ]] || cp "$PLEXUS_RUN_CONFIG" launch.mcp
[[ -z ${GEMINI_CLI_SYSTEM_DEFAULTS_PATH:-} ]] || cp "$GEMINI_CLI_SYSTEM_DEFAULTS_PATH" launch.gemini
echo done > launched
until [[ -e go ]]; do sleep 0.02; done"#;

/// How an agent was started.
struct LaunchRecord {
    env: Vec<(String, String)>,
    args: Vec<String>,
}

impl LaunchRecord {
    async fn of(home: &RunnerHome) -> Self {
        home.file("launched").await;
        let read = |name: &str| std::fs::read_to_string(home.path(name)).unwrap();
        let env = read("launch.env");
        let env = env.split('\0').filter_map(|line| line.split_once('='));
        Self {
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            // Without the interpreter and the script.
            args: read("launch.args").lines().skip(2).map(str::to_owned).collect(),
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(set, _)| set == name).map(|(_, value)| value.as_str())
    }

    /// The variable with the credential: name and value.
    fn key(&self) -> (String, String) {
        let is_key = |name: &str| name.starts_with("PLEXUS_RUN_") && name.ends_with("_KEY");
        let keys: Vec<_> = self.env.iter().filter(|(name, _)| is_key(name)).collect();
        let [(name, value)] = keys.as_slice() else { panic!("{keys:?}") };
        (name.clone(), value.clone())
    }
}

#[tokio::test]
async fn proxied_agent_has_no_credential_for_the_hub() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", RECORDING_AGENT);
    let run = home.command(&["run", "claude"]).spawn().unwrap();
    let launched = LaunchRecord::of(&home).await;
    let (_, key) = launched.key();
    let mcp: Value =
        serde_json::from_str(&std::fs::read_to_string(home.path("launch.mcp")).unwrap()).unwrap();
    let url = mcp["mcpServers"]["plexus"]["url"].as_str().expect("an address").to_owned();
    assert!(url.starts_with("http://127.0.0.1:") && url != home.hub().url("/mcp"), "{url}");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let status_of = async |url: &str, key: &str| {
        let request = reqwest::Client::new().post(url).bearer_auth(key).json(&ping);
        let request = request.header("Accept", "application/json, text/event-stream");
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(status_of(&url, &key).await, 200, "the proxy accepts the credential");
    assert_eq!(status_of(&url, "another").await, 401);
    assert_eq!(
        status_of(&home.hub().url("/mcp"), &key).await,
        401,
        "the hub accepts the credential of the proxy"
    );
    std::fs::write(home.path("go"), "").unwrap();
    let output = end(run).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    home.assert_cleaned_up().await;
}

#[tokio::test]
async fn agent_token_is_in_one_variable_and_nowhere_else() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", RECORDING_AGENT);
    home.write(".claude/settings.json", "{\"env\": {\"PLEXUS_TOKEN\": \"x\"}}");
    home.write(".claude.json", "{}");
    let before = tree(&home.path(".claude"));
    let admin = home.hub().admin_token();
    let mut command = home.command(&["run", "claude", "--", "-p", "a prompt"]);
    // Without the proxy the agent has its own token for the hub.
    let run = command
        .env("PLEXUS_PROXY", "off")
        .env("PLEXUS_TOKEN", &admin)
        .env("PLEXUS_NODE_KEY", "a key of nodes")
        .env("PLEXUS_RUN_ID", "of another run")
        .env("SOME_KEY", "the user's")
        .spawn()
        .unwrap();
    let launched = LaunchRecord::of(&home).await;

    let (name, key) = launched.key();
    assert_eq!(launched.variable("SOME_KEY"), Some("the user's"));
    for hidden in ["PLEXUS_TOKEN", "PLEXUS_NODE_KEY"] {
        assert_eq!(launched.variable(hidden), None, "{hidden}");
    }
    assert_ne!(launched.variable("PLEXUS_RUN_ID"), Some("of another run"));
    assert!(launched.env.iter().all(|(_, value)| !value.contains(&admin)), "the token of the creator");
    // The token is in no argument and no file.
    let shown = launched.args.join("\n");
    assert!(!shown.contains(&key) && !shown.contains(&admin), "{shown}");
    assert!(launched.args.ends_with(&["-p".to_owned(), "a prompt".to_owned()]), "{shown}");
    let [folder] = home.folders().try_into().expect("one run");
    for (path, content) in tree(&folder) {
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(&key) && !text.contains(&admin), "{} has a secret", path.display());
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&folder).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    let mcp: Value =
        serde_json::from_str(&std::fs::read_to_string(home.path("launch.mcp")).unwrap()).unwrap();
    let server = &mcp["mcpServers"]["plexus"];
    assert_eq!(server["url"], home.hub().url("/mcp"));
    assert_eq!(server["headers"]["Authorization"], format!("Bearer ${{{name}}}"));
    let session = server["headers"]["Plexus-Session"].as_str().expect("a session");
    assert!(launched.args.contains(&format!("--session-id={session}")), "{shown}");

    // Its rights are a subset of those of its creator.
    let run_token = home.hub().api_as(&key, "/api/v1/tokens/self").await;
    assert_eq!(
        (&run_token["kind"], &run_token["scopes"]),
        (&json!("session"), &json!(["call:*"])),
        "{run_token}"
    );
    assert!(run_token["name"].as_str().unwrap().ends_with("/claude"), "{run_token}");
    std::fs::write(home.path("go"), "").unwrap();
    let output = end(run).await;
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{output:?}");
    assert!(output.stderr.contains(&format!("session claude:{session}")), "{output:?}");
    assert!(!output.stderr.contains(&key), "{output:?}");

    home.assert_cleaned_up().await;
    assert_eq!(tree(&home.path(".claude")), before);
    let (session_key, _) = home.notifications().await;
    assert_eq!(session_key, format!("claude:{session}"));
}

#[tokio::test]
async fn each_agent_is_configured_in_its_own_way() {
    let home = RunnerHome::new().await;
    for agent in ["codex", "opencode", "gemini", "another"] {
        home.add_agent(agent, RECORDING_AGENT);
    }
    std::fs::write(home.path("go"), "").unwrap();
    home.write("defaults.json", r#"{"ui": {"theme": "dark"}, "mcpServers": {"mine": {"command": "x"}}}"#);
    let url = home.hub().url("/mcp");
    let launched = async |args: &[&str]| {
        let _ = std::fs::remove_file(home.path("launched"));
        let mut command = home.command(args);
        command
            .env("PLEXUS_PROXY", "off")
            .env("OPENCODE_CONFIG_CONTENT", r#"{"theme": "mine", "mcp": {"other": {"type": "local"}}}"#)
            .env("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", home.path("defaults.json"));
        let output = end(command.spawn().unwrap()).await;
        assert_eq!(output.ok(), "", "{output:?}");
        LaunchRecord::of(&home).await
    };

    let codex = launched(&["run", "codex", "-q", "--", "exec", "do it"]).await;
    let (name, _) = codex.key();
    let config = [
        "-c".to_owned(),
        format!("mcp_servers.plexus.url=\"{url}\""),
        "-c".to_owned(),
        format!("mcp_servers.plexus.bearer_token_env_var=\"{name}\""),
        "exec".to_owned(),
        "do it".to_owned(),
    ];
    assert_eq!(codex.args, config);

    // An existing server of the same name with a command is disabled, and another name is used.
    home.write(".codex/config.toml", "# mine\n[mcp_servers.plexus]\ncommand = 'plexus'\nargs = ['mcp']\n");
    let codex = launched(&["run", "codex", "-q", "--", "exec", "do it"]).await;
    let config =
        ["mcp_servers.plexus.enabled=false".to_owned(), format!("mcp_servers.plexus_run.url=\"{url}\"")];
    assert!(config.iter().all(|set| codex.args.contains(set)), "{:?}", codex.args);

    let opencode = launched(&["run", "opencode", "--", "run", "hi"]).await;
    let (name, _) = opencode.key();
    let config: Value = serde_json::from_str(opencode.variable("OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
    assert_eq!((&config["theme"], &config["mcp"]["other"]["type"]), (&json!("mine"), &json!("local")));
    assert_eq!(config["mcp"]["plexus"]["url"], url);
    assert_eq!(config["mcp"]["plexus"]["headers"]["Authorization"], format!("Bearer {{env:{name}}}"));

    let gemini = launched(&["run", "gemini", "--", "-p", "hi"]).await;
    let (name, _) = gemini.key();
    let config: Value =
        serde_json::from_str(&std::fs::read_to_string(home.path("launch.gemini")).unwrap()).unwrap();
    assert_eq!(
        (&config["ui"]["theme"], &config["mcpServers"]["mine"]["command"]),
        (&json!("dark"), &json!("x"))
    );
    assert_eq!(config["mcpServers"]["plexus"]["httpUrl"], url);
    assert_eq!(config["mcpServers"]["plexus"]["headers"]["Authorization"], format!("Bearer ${{{name}}}"));
    assert!(gemini.args[0].starts_with("--session-id="), "{:?}", gemini.args);

    let generic = launched(&["run", "--generic", "another", "--name", "nightly", "--", "-v"]).await;
    let (name, _) = generic.key();
    assert_eq!(generic.args, ["-v"]);
    for (variable, value) in [
        ("PLEXUS_RUN_URL", url.as_str()),
        ("PLEXUS_RUN_KEY_VARIABLE", &name),
        ("PLEXUS_RUN_SESSION", "nightly"),
    ] {
        assert_eq!(generic.variable(variable), Some(value), "{variable}");
    }
    home.assert_cleaned_up().await;
}

#[tokio::test]
async fn profile_settings_are_passed_to_agents() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", RECORDING_AGENT);
    home.add_agent("codex", RECORDING_AGENT);
    std::fs::write(home.path("go"), "").unwrap();
    home.write("skills/greet/SKILL.md", "---\nname: greet\ndescription: Greets.\n---\nSay hello.\n");
    let profiles = ".local/share/plexus/profiles/reviewer";
    let config = json!({
        "enabled_tools": ["todo"],
        "run": {
            "*": { "effort": "high", "system_prompt": true, "skills": ["~/skills/greet", "/no/such/skill"] },
            "claude": { "model": "sonnet", "approval_mode": "plan", "allow_tools": true, "status_line": true },
            "codex": { "model": "gpt-9" },
        },
    });
    home.write(&format!("{profiles}/system_prompt.txt"), "You \"review\".\n");
    home.write(&format!("{profiles}/config.json"), &config.to_string());
    home.run(&["tools", "call", "reload_tools"]).await.ok();

    let claude = home.run(&["run", "claude", "--profile", "reviewer", "--", "hi"]).await;
    claude.ok();
    for expected in
        ["approval mode \"plan\"", "without asking", "\"/no/such/skill\" of the profile is left out"]
    {
        assert!(claude.stderr.contains(expected), "{expected}: {}", claude.stderr);
    }
    let args = LaunchRecord::of(&home).await.args.join("\n");
    for arg in [
        "--model=sonnet",
        "--effort=high",
        "--permission-mode=plan",
        "--allowedTools=mcp__plexus",
        "--append-system-prompt-file=",
        "--plugin-dir=",
        "--settings=",
    ] {
        assert!(args.contains(arg), "{arg} is not in {args}");
    }

    std::fs::remove_file(home.path("launched")).unwrap();
    let codex = home.run(&["run", "codex", "--profile", "reviewer", "--", "exec", "hi"]).await;
    codex.ok();
    assert_eq!(codex.stderr.matches("skills, which codex does not support").count(), 1, "{}", codex.stderr);
    let args = LaunchRecord::of(&home).await.args;
    for arg in [
        "model=\"gpt-9\"",
        "model_reasoning_effort=\"high\"",
        "developer_instructions=\"You \\\"review\\\".\\n\"",
    ] {
        assert!(args.iter().any(|given| given == arg), "{arg} is not in {args:?}");
    }
    assert!(!args.join(" ").contains("approv"), "approvals were disabled: {args:?}");
    home.assert_cleaned_up().await;
}
