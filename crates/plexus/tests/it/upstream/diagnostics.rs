//! Problems as reported by `plexus upstream` and `plexus doctor`: servers that hang or are down, invalid files, and mistyped
//! commands. The messages contain the fix.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{fixture_program, running};

#[tokio::test]
async fn wait_option_limits_the_wait_for_a_hanging_server() {
    let (plexus, _hub) = running().await;
    // Well below the 15 seconds that the hub would wait by itself.
    let limit = Duration::from_secs(9);
    let hanging = fixture_program();
    let hanging = ["--", &hanging, "--stdio", "--misbehave", "hang-at-start"];
    let started = Instant::now();
    let added = plexus.run(&[&["upstream", "add", "slow", "--wait", "0"][..], &hanging].concat()).await;
    assert!(added.ok().starts_with("slow is starting. `plexus upstream show slow`"), "{added:?}");
    let late = plexus.run(&["upstream", "restart", "slow", "--wait", "1s"]).await;
    assert!(late.failed(1).contains("error: slow is not up after 1 s: it is still starting"), "{late:?}");
    assert!(started.elapsed() < limit, "{:?}", started.elapsed());
    plexus.run(&["upstream", "disable", "slow"]).await.ok();
    let started = Instant::now();
    let late = plexus.run(&["upstream", "enable", "slow", "--wait", "1s", "--json"]).await;
    assert_eq!((&late.json(1)["state"], started.elapsed() < limit), (&"starting".into(), true), "{late:?}");
    let file = plexus.home().join("other.json");
    let servers =
        serde_json::json!({ "mcpServers": { "slower": { "command": hanging[1], "args": hanging[2..] } } });
    std::fs::write(&file, servers.to_string()).expect("a file");
    let started = Instant::now();
    plexus.run(&["upstream", "import", file.to_str().expect("UTF-8")]).await.ok();
    assert!(started.elapsed() < limit, "{:?}", started.elapsed());
    let mistyped = plexus.run(&["upstream", "restart", "slow", "--wait", "5x"]).await;
    assert!(mistyped.failed(2).contains("30s, 15m"), "{mistyped:?}");
}

/// Level, message and fix of the findings of the doctor about servers.
fn upstream_findings(report: &Value) -> Vec<(String, String, String)> {
    let found = report["findings"].as_array().expect("findings").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let upstreams_only = found.filter(|finding| finding["check"] == "upstreams");
    upstreams_only
        .map(|finding| (text(&finding["level"]), text(&finding["message"]), text(&finding["fix"])))
        .collect()
}

#[tokio::test]
async fn doctor_names_failed_servers_of_a_running_hub() {
    let (plexus, _hub) = running().await;
    plexus.run(&["upstream", "add", "fine", "--", &fixture_program(), "--stdio"]).await.ok();
    plexus.run(&["upstream", "add", "broken", "--", "false"]).await.failed(1);
    let checked = plexus.run(&["doctor", "--json"]).await;
    assert_eq!(checked.stderr, "", "{checked:?}");
    let found = upstream_findings(&checked.json(1));
    let [(level, message, fix)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(level, "problem");
    assert!(message.starts_with("broken is "), "{message}");
    assert!(fix.contains("upstream show broken") && fix.ends_with("upstream disable broken"), "{fix}");
    let status = plexus.run(&["status", "--json"]).await.json(0);
    let counts = &status["upstreams"];
    let unwell = ["down", "failed", "invalid"].map(|state| counts[state].as_u64().expect("a number"));
    assert_eq!((unwell.iter().sum::<u64>(), &counts["ready"]), (1, &1.into()), "{counts}");
}

#[tokio::test]
async fn doctor_checks_another_folder_and_warns_about_unset_variables() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("servers of mine");
    std::fs::create_dir_all(&folder).expect("a folder");
    let server = r#"{"command": "sh", "env": {"A": "${env:ONLY_THE_HUB_HAS_IT}", "API_TOKEN": "hunter2"}}"#;
    std::fs::write(folder.join("one.json"), server).expect("a file");
    std::fs::write(folder.join("not there.json"), r#"{"command": "no-such-program-anywhere"}"#)
        .expect("a file");
    let named = folder.to_str().expect("UTF-8");
    let listen = [("PLEXUS_LISTEN", "127.0.0.1:0")];
    let report = plexus.run_with(&["doctor", "--mcp-dir", named, "--json"], &listen).await.json(1);
    let found = upstream_findings(&report);
    let [missing, credential, unset] = &found[..] else { panic!("{found:?}") };
    assert!(missing.2.ends_with("upstream disable 'not there'"), "{missing:?}");
    assert!(credential.1.contains("`env.API_TOKEN` holds what looks like a credential"), "{credential:?}");
    assert_eq!((credential.0.as_str(), unset.0.as_str()), ("warning", "warning"));
    assert!(unset.1.ends_with("needs the variable ONLY_THE_HUB_HAS_IT, which is not set here"), "{unset:?}");
}

#[tokio::test]
async fn mistyped_commands_are_answered_with_the_correct_ones() {
    let (plexus, _hub) = running().await;
    for (args, exit, expected) in [
        (
            &["upstream", "add", "u8", "npx", "-y", "pkg"][..],
            2,
            "hint: plexus upstream add u8 -- npx -y pkg\n",
        ),
        (&["upstream", "add", "u8", "node"], 2, "hint: plexus upstream add u8 -- node\n"),
        (&["upstream", "test", "u8", "node"], 2, "hint: plexus upstream test u8 -- node\n"),
        (&["upstream", "add", "../u8", "http://127.0.0.1:9"], 2, "the name of a server must have"),
        (&["upstream", "add", "u8", "ftp://127.0.0.1:9"], 2, "error: `url` "),
        (
            &["token", "create", "--kind", "agent", "--name", "a", "--profile", "develper"],
            1,
            "did you mean --profile developer?",
        ),
    ] {
        let output = plexus.run(args).await;
        let stderr = output.failed(exit);
        assert!(stderr.contains(expected) && !stderr.contains("u8.json"), "{args:?}: {stderr}");
    }
    plexus.run(&["upstream", "add", "local", "--", &fixture_program(), "--stdio"]).await.ok();
    let again = plexus.run(&["upstream", "add", "local", "--", &fixture_program(), "--stdio"]).await;
    assert!(again.failed(1).contains("there is already a server local (its file: /"), "{again:?}");
    let misspelt = plexus.run(&["upstream", "show", "locl"]).await;
    assert!(misspelt.failed(1).contains("Did you mean local?"), "{misspelt:?}");
    let text = ["tools", "call", "mcp__local__echo", "--arg", "text=123"];
    assert!(plexus.run(&text).await.failed(1).contains("--arg 'text=\"123\"'"));
    let header = ["--disabled", "--header", "Authorization: Bearer "];
    let empty_credential =
        plexus.run(&[&["upstream", "add", "web", "http://127.0.0.1:9"][..], &header].concat()).await;
    assert!(empty_credential.stderr.contains("single quotes"), "{empty_credential:?}");
    // A relative path of the current folder is not valid in the folder in which the hub starts servers.
    let line = |more: &str| {
        format!("cd ~ && touch srv.py && plexus upstream add rel --disabled {more} -- false srv.py /tmp")
    };
    let relative = plexus.shell(&line("")).await;
    assert!(
        relative.stderr.contains("srv.py is a file in this folder") && relative.stderr.contains("--cwd .")
    );
    plexus.run(&["upstream", "remove", "rel"]).await.ok();
    assert!(!plexus.shell(&line("--cwd .")).await.stderr.contains("is a file in this folder"));
    let made = ["token", "create", "--kind", "agent", "--name", "a", "--profile", "developer"];
    assert!(plexus.run(&made).await.stderr.contains("Profile: developer.\n"));
}

#[tokio::test]
async fn images_of_a_result_are_summarized_and_in_the_json() {
    let (plexus, _hub) = running().await;
    plexus.run(&["upstream", "add", "local", "--", &fixture_program(), "--stdio"]).await.ok();
    let called = plexus.run(&["tools", "call", "mcp__local__test_image_content"]).await;
    assert_eq!(called.ok(), "");
    assert!(called.stderr.contains("1 image (image/png, "), "{called:?}");
    let called = plexus.run(&["tools", "call", "mcp__local__test_image_content", "--json"]).await.json(0);
    assert_eq!(called["content"][0]["mimeType"], "image/png", "{called}");
    assert!(called["content"][0]["data"].is_string(), "{called}");
    let tools = plexus.run(&["tools", "ls", "--server", "local", "--limit", "500"]).await;
    assert!(tools.ok().lines().all(|line| line.contains("\tserver local\t")), "{tools:?}");
}

#[tokio::test]
async fn problems_of_a_file_are_not_truncated_in_a_pipe() {
    let plexus = crate::plexus();
    let folder = plexus.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).expect("a folder");
    let long = "a".repeat(60);
    let wrong = format!(r#"{{"comand": "sh", "timeout": "x", "{long}": 1}}"#);
    std::fs::write(folder.join("my server.json"), wrong).expect("a file");
    let _hub = plexus.up().await;
    let listed = plexus.run(&["upstream", "ls"]).await;
    assert!(listed.ok().contains("\tmy server.json: `"), "{listed:?}");
    assert!(listed.ok().contains("is not a duration") && !listed.ok().contains('…'), "{listed:?}");
    assert!(listed.stderr.contains("`plexus upstream show 'my server'` shows why"), "{listed:?}");
    let shown = plexus.run(&["upstream", "show", "my server"]).await;
    let problems = shown.stderr.lines().filter(|line| line.starts_with("  /")).count();
    assert_eq!(problems, 3, "{shown:?}");
}

#[tokio::test]
async fn missing_servers_folder_is_logged_as_a_warning() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("no-such-folder");
    let hub = plexus.up_with(&["--mcp-dir", folder.to_str().expect("UTF-8")]).await;
    assert!(hub.log().contains("no-such-folder of --mcp-dir does not exist"), "{}", hub.log());
    assert!(hub.welcome().contains(" upstream add --help "), "{}", hub.welcome());
}
