//! `plexus upstream` and the doctor where something is not as it should be: a server that hangs or is down, a file that is
//! wrong, a command line that was mistyped. What is said is enough to go on with.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{fixture, running};

#[tokio::test]
async fn a_server_that_hangs_is_waited_for_as_long_as_was_said() {
    let (plexus, _hub) = running().await;
    // Well below the 15 seconds that the hub would wait by itself.
    let soon = Duration::from_secs(9);
    let hanging = fixture();
    let hanging = ["--", &hanging, "--stdio", "--misbehave", "hang-at-start"];
    let began = Instant::now();
    let added = plexus.run(&[&["upstream", "add", "slow", "--wait", "0"][..], &hanging].concat()).await;
    assert!(added.ok().starts_with("slow is being started. `plexus upstream show slow`"), "{added:?}");
    let late = plexus.run(&["upstream", "restart", "slow", "--wait", "1s"]).await;
    assert!(late.failed(1).contains("error: slow is not up after 1 s: it is still starting"), "{late:?}");
    assert!(began.elapsed() < soon, "{:?}", began.elapsed());
    plexus.run(&["upstream", "disable", "slow"]).await.ok();
    let began = Instant::now();
    let late = plexus.run(&["upstream", "enable", "slow", "--wait", "1s", "--json"]).await;
    assert_eq!((&late.json(1)["state"], began.elapsed() < soon), (&"starting".into(), true), "{late:?}");
    let file = plexus.home().join("other.json");
    let servers =
        serde_json::json!({ "mcpServers": { "slower": { "command": hanging[1], "args": hanging[2..] } } });
    std::fs::write(&file, servers.to_string()).expect("a file");
    let began = Instant::now();
    plexus.run(&["upstream", "import", file.to_str().expect("UTF-8")]).await.ok();
    assert!(began.elapsed() < soon, "{:?}", began.elapsed());
    let mistyped = plexus.run(&["upstream", "restart", "slow", "--wait", "5x"]).await;
    assert!(mistyped.failed(2).contains("30s, 15m"), "{mistyped:?}");
}

/// Level, message and fix of what the doctor says of the servers.
fn of_servers(report: &Value) -> Vec<(String, String, String)> {
    let found = report["findings"].as_array().expect("findings").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = found.filter(|finding| finding["check"] == "upstreams");
    ours.map(|finding| (text(&finding["level"]), text(&finding["message"]), text(&finding["fix"]))).collect()
}

#[tokio::test]
async fn the_doctor_names_the_servers_of_a_running_hub_that_are_not_well() {
    let (plexus, _hub) = running().await;
    plexus.run(&["upstream", "add", "fine", "--", &fixture(), "--stdio"]).await.ok();
    plexus.run(&["upstream", "add", "broken", "--", "false"]).await.failed(1);
    let examined = plexus.run(&["doctor", "--json"]).await;
    assert_eq!(examined.stderr, "", "{examined:?}");
    let found = of_servers(&examined.json(1));
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
async fn the_doctor_looks_at_another_folder_and_calls_what_is_unset_here_a_warning() {
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
    let found = of_servers(&report);
    let [gone, credential, unset] = &found[..] else { panic!("{found:?}") };
    assert!(gone.2.ends_with("upstream disable 'not there'"), "{gone:?}");
    assert!(credential.1.contains("`env.API_TOKEN` holds what looks like a credential"), "{credential:?}");
    assert_eq!((credential.0.as_str(), unset.0.as_str()), ("warning", "warning"));
    assert!(unset.1.ends_with("needs the variable ONLY_THE_HUB_HAS_IT, which is not set here"), "{unset:?}");
}

#[tokio::test]
async fn a_slip_on_the_command_line_is_answered_with_what_was_meant() {
    let (plexus, _hub) = running().await;
    for (args, exit, words) in [
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
        let ran = plexus.run(args).await;
        let said = ran.failed(exit);
        assert!(said.contains(words) && !said.contains("u8.json"), "{args:?}: {said}");
    }
    plexus.run(&["upstream", "add", "local", "--", &fixture(), "--stdio"]).await.ok();
    let again = plexus.run(&["upstream", "add", "local", "--", &fixture(), "--stdio"]).await;
    assert!(again.failed(1).contains("there is already a server local (its file: /"), "{again:?}");
    let misspelt = plexus.run(&["upstream", "show", "locl"]).await;
    assert!(misspelt.failed(1).contains("Did you mean local?"), "{misspelt:?}");
    let text = ["tools", "call", "mcp__local__echo", "--arg", "text=123"];
    assert!(plexus.run(&text).await.failed(1).contains("--arg 'text=\"123\"'"));
    let header = ["--disabled", "--header", "Authorization: Bearer "];
    let hollow = plexus.run(&[&["upstream", "add", "web", "http://127.0.0.1:9"][..], &header].concat()).await;
    assert!(hollow.stderr.contains("single quotes"), "{hollow:?}");
    // A file of this folder is none of the folder that the hub starts servers in.
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
async fn pictures_of_a_result_are_named_and_in_the_json() {
    let (plexus, _hub) = running().await;
    plexus.run(&["upstream", "add", "local", "--", &fixture(), "--stdio"]).await.ok();
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
async fn what_is_wrong_with_a_file_is_told_whole_in_a_pipe() {
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
    assert!(listed.stderr.contains("`plexus upstream show 'my server'` says why"), "{listed:?}");
    let shown = plexus.run(&["upstream", "show", "my server"]).await;
    let problems = shown.stderr.lines().filter(|line| line.starts_with("  /")).count();
    assert_eq!(problems, 3, "{shown:?}");
}

#[tokio::test]
async fn a_folder_of_servers_that_was_named_and_is_not_there_is_warned_about() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("no-such-folder");
    let hub = plexus.up_with(&["--mcp-dir", folder.to_str().expect("UTF-8")]).await;
    assert!(hub.log().contains("no-such-folder, which is no folder that is there"), "{}", hub.log());
    assert!(hub.welcome().contains(" upstream add --help "), "{}", hub.welcome());
}
