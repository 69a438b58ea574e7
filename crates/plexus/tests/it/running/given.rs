//! What an agent is given, and what it is not.

use serde_json::{Value, json};

use super::{Bench, end, tree};

/// Writes down how it was started, and waits to be let go.
const WRITES_DOWN: &str = r#"
env -0 > told.env
tr '\0' '\n' < /proc/$$/cmdline > told.args
for arg; do
  case $arg in --mcp-config=*) cp "${arg#*=}" told.mcp;; --settings=*) cp "${arg#*=}" told.settings;; esac
done
[[ -z ${PLEXUS_RUN_CONFIG:-} ]] || cp "$PLEXUS_RUN_CONFIG" told.mcp
[[ -z ${GEMINI_CLI_SYSTEM_DEFAULTS_PATH:-} ]] || cp "$GEMINI_CLI_SYSTEM_DEFAULTS_PATH" told.gemini
echo done > told
until [[ -e go ]]; do sleep 0.02; done"#;

struct Told {
    env: Vec<(String, String)>,
    args: Vec<String>,
}

impl Told {
    async fn of(bench: &Bench) -> Self {
        bench.file("told").await;
        let read = |name: &str| std::fs::read_to_string(bench.at(name)).unwrap();
        let env = read("told.env");
        let env = env.split('\0').filter_map(|line| line.split_once('='));
        Self {
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            // The interpreter and the script.
            args: read("told.args").lines().skip(2).map(str::to_owned).collect(),
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(set, _)| set == name).map(|(_, value)| value.as_str())
    }

    /// The name of the variable with the credential, and the credential.
    fn key(&self) -> (String, String) {
        let is_key = |name: &str| name.starts_with("PLEXUS_RUN_") && name.ends_with("_KEY");
        let keys: Vec<_> = self.env.iter().filter(|(name, _)| is_key(name)).collect();
        let [(name, value)] = keys.as_slice() else { panic!("{keys:?}") };
        (name.clone(), value.clone())
    }
}

#[tokio::test]
async fn behind_the_proxy_an_agent_holds_nothing_that_opens_the_hub() {
    let bench = Bench::new().await;
    bench.agent("claude", WRITES_DOWN);
    let run = bench.command(&["run", "claude"]).spawn().unwrap();
    let told = Told::of(&bench).await;
    let (_, key) = told.key();
    let mcp: Value = serde_json::from_str(&std::fs::read_to_string(bench.at("told.mcp")).unwrap()).unwrap();
    let url = mcp["mcpServers"]["plexus"]["url"].as_str().expect("an address").to_owned();
    assert!(url.starts_with("http://127.0.0.1:") && url != bench.hub().url("/mcp"), "{url}");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let asked = async |url: &str, key: &str| {
        let request = reqwest::Client::new().post(url).bearer_auth(key).json(&ping);
        let request = request.header("Accept", "application/json, text/event-stream");
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(asked(&url, &key).await, 200, "the proxy takes it");
    assert_eq!(asked(&url, "another").await, 401);
    assert_eq!(asked(&bench.hub().url("/mcp"), &key).await, 401, "the hub does not");
    std::fs::write(bench.at("go"), "").unwrap();
    let ran = end(run).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    bench.is_cleared().await;
}

#[tokio::test]
async fn an_agent_has_a_token_of_its_own_in_one_variable_and_nothing_else_of_ours() {
    let bench = Bench::new().await;
    bench.agent("claude", WRITES_DOWN);
    bench.write(".claude/settings.json", "{\"env\": {\"PLEXUS_TOKEN\": \"x\"}}");
    bench.write(".claude.json", "{}");
    let before = tree(&bench.at(".claude"));
    let admin = bench.hub().admin_token();
    let mut command = bench.command(&["run", "claude", "--", "-p", "a prompt"]);
    // Straight to the hub: its own token is what the agent has.
    let run = command
        .env("PLEXUS_PROXY", "off")
        .env("PLEXUS_TOKEN", &admin)
        .env("PLEXUS_NODE_KEY", "a key of nodes")
        .env("PLEXUS_RUN_ID", "of another run")
        .env("SOME_KEY", "the user's")
        .spawn()
        .unwrap();
    let told = Told::of(&bench).await;

    let (name, key) = told.key();
    assert_eq!(told.variable("SOME_KEY"), Some("the user's"));
    for gone in ["PLEXUS_TOKEN", "PLEXUS_NODE_KEY"] {
        assert_eq!(told.variable(gone), None, "{gone}");
    }
    assert_ne!(told.variable("PLEXUS_RUN_ID"), Some("of another run"));
    assert!(told.env.iter().all(|(_, value)| !value.contains(&admin)), "the maker's own token");
    // No argument, no file of the run and none of the user's holds it.
    let shown = told.args.join("\n");
    assert!(!shown.contains(&key) && !shown.contains(&admin), "{shown}");
    assert!(told.args.ends_with(&["-p".to_owned(), "a prompt".to_owned()]), "{shown}");
    let [folder] = bench.folders().try_into().expect("one run");
    for (path, content) in tree(&folder) {
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(&key) && !text.contains(&admin), "{} has a secret", path.display());
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&folder).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    let mcp: Value = serde_json::from_str(&std::fs::read_to_string(bench.at("told.mcp")).unwrap()).unwrap();
    let server = &mcp["mcpServers"]["plexus"];
    assert_eq!(server["url"], bench.hub().url("/mcp"));
    assert_eq!(server["headers"]["Authorization"], format!("Bearer ${{{name}}}"));
    let session = server["headers"]["Plexus-Session"].as_str().expect("a session");
    assert!(told.args.contains(&format!("--session-id={session}")), "{shown}");

    // A part of what its maker may do.
    let own = bench.hub().api_as(&key, "/api/v1/tokens/self").await;
    assert_eq!((&own["kind"], &own["scopes"]), (&json!("session"), &json!(["call:*"])), "{own}");
    assert!(own["name"].as_str().unwrap().ends_with("/claude"), "{own}");
    std::fs::write(bench.at("go"), "").unwrap();
    let ran = end(run).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stderr.contains(&format!("session claude:{session}")), "{ran:?}");
    assert!(!ran.stderr.contains(&key), "{ran:?}");

    bench.is_cleared().await;
    assert_eq!(tree(&bench.at(".claude")), before);
    let (kept, _) = bench.told().await;
    assert_eq!(kept, format!("claude:{session}"));
}

#[tokio::test]
async fn each_agent_is_told_in_its_own_way() {
    let bench = Bench::new().await;
    for agent in ["codex", "opencode", "gemini", "another"] {
        bench.agent(agent, WRITES_DOWN);
    }
    std::fs::write(bench.at("go"), "").unwrap();
    bench.write("defaults.json", r#"{"ui": {"theme": "dark"}, "mcpServers": {"mine": {"command": "x"}}}"#);
    let url = bench.hub().url("/mcp");
    let told = async |args: &[&str]| {
        let _ = std::fs::remove_file(bench.at("told"));
        let mut command = bench.command(args);
        command
            .env("PLEXUS_PROXY", "off")
            .env("OPENCODE_CONFIG_CONTENT", r#"{"theme": "mine", "mcp": {"other": {"type": "local"}}}"#)
            .env("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", bench.at("defaults.json"));
        let ran = end(command.spawn().unwrap()).await;
        assert_eq!(ran.ok(), "", "{ran:?}");
        Told::of(&bench).await
    };

    let codex = told(&["run", "codex", "-q", "--", "exec", "do it"]).await;
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

    // A server of the same name that is a command cannot be given an address.
    bench.write(".codex/config.toml", "# mine\n[mcp_servers.plexus]\ncommand = 'plexus'\nargs = ['mcp']\n");
    let codex = told(&["run", "codex", "-q", "--", "exec", "do it"]).await;
    let config =
        ["mcp_servers.plexus.enabled=false".to_owned(), format!("mcp_servers.plexus_run.url=\"{url}\"")];
    assert!(config.iter().all(|set| codex.args.contains(set)), "{:?}", codex.args);

    let opencode = told(&["run", "opencode", "--", "run", "hi"]).await;
    let (name, _) = opencode.key();
    let config: Value = serde_json::from_str(opencode.variable("OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
    assert_eq!((&config["theme"], &config["mcp"]["other"]["type"]), (&json!("mine"), &json!("local")));
    assert_eq!(config["mcp"]["plexus"]["url"], url);
    assert_eq!(config["mcp"]["plexus"]["headers"]["Authorization"], format!("Bearer {{env:{name}}}"));

    let gemini = told(&["run", "gemini", "--", "-p", "hi"]).await;
    let (name, _) = gemini.key();
    let config: Value =
        serde_json::from_str(&std::fs::read_to_string(bench.at("told.gemini")).unwrap()).unwrap();
    assert_eq!(
        (&config["ui"]["theme"], &config["mcpServers"]["mine"]["command"]),
        (&json!("dark"), &json!("x"))
    );
    assert_eq!(config["mcpServers"]["plexus"]["httpUrl"], url);
    assert_eq!(config["mcpServers"]["plexus"]["headers"]["Authorization"], format!("Bearer ${{{name}}}"));
    assert!(gemini.args[0].starts_with("--session-id="), "{:?}", gemini.args);

    let any = told(&["run", "--generic", "another", "--name", "nightly", "--", "-v"]).await;
    let (name, _) = any.key();
    assert_eq!(any.args, ["-v"]);
    for (variable, value) in [
        ("PLEXUS_RUN_URL", url.as_str()),
        ("PLEXUS_RUN_KEY_VARIABLE", &name),
        ("PLEXUS_RUN_SESSION", "nightly"),
    ] {
        assert_eq!(any.variable(variable), Some(value), "{variable}");
    }
    bench.is_cleared().await;
}

#[tokio::test]
async fn a_profile_says_what_else_an_agent_is_given() {
    let bench = Bench::new().await;
    bench.agent("claude", WRITES_DOWN);
    bench.agent("codex", WRITES_DOWN);
    std::fs::write(bench.at("go"), "").unwrap();
    bench.write("skills/greet/SKILL.md", "---\nname: greet\ndescription: Greets.\n---\nSay hello.\n");
    let profiles = ".local/share/plexus/profiles/reviewer";
    let config = json!({
        "enabled_tools": ["todo"],
        "run": {
            "*": { "effort": "high", "system_prompt": true, "skills": ["~/skills/greet", "/no/such/skill"] },
            "claude": { "model": "sonnet", "approval_mode": "plan", "allow_tools": true, "status_line": true },
            "codex": { "model": "gpt-9" },
        },
    });
    bench.write(&format!("{profiles}/system_prompt.txt"), "You \"review\".\n");
    bench.write(&format!("{profiles}/config.json"), &config.to_string());
    bench.run(&["tools", "call", "reload_tools"]).await.ok();

    let claude = bench.run(&["run", "claude", "--profile", "reviewer", "--", "hi"]).await;
    claude.ok();
    for said in ["approval mode \"plan\"", "without asking", "\"/no/such/skill\" of the profile is left out"]
    {
        assert!(claude.stderr.contains(said), "{said}: {}", claude.stderr);
    }
    let args = Told::of(&bench).await.args.join("\n");
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

    std::fs::remove_file(bench.at("told")).unwrap();
    let codex = bench.run(&["run", "codex", "--profile", "reviewer", "--", "exec", "hi"]).await;
    codex.ok();
    assert_eq!(codex.stderr.matches("skills, which codex does not support").count(), 1, "{}", codex.stderr);
    let args = Told::of(&bench).await.args;
    for arg in [
        "model=\"gpt-9\"",
        "model_reasoning_effort=\"high\"",
        "developer_instructions=\"You \\\"review\\\".\\n\"",
    ] {
        assert!(args.iter().any(|given| given == arg), "{arg} is not in {args:?}");
    }
    assert!(!args.join(" ").contains("approv"), "nothing is loosened: {args:?}");
    bench.is_cleared().await;
}
