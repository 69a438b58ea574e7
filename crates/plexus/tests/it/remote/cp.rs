//! `plexus cp` without faults: content and attributes of copies, and refusals.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use plexus_testkit::eventually;

use super::{Site, random_bytes};

#[tokio::test]
async fn files_are_copied_both_ways_with_mode_time_and_unusual_names() {
    let site = Site::new().await;
    let content = random_bytes(3_500_000, 1);
    let source = site.local_path("photo.bin");
    std::fs::write(&source, &content).unwrap();
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o741)).unwrap();
    site.ok(&["cp", "photo.bin", "nas:there.bin"]).await;
    assert!(std::fs::read(site.on_node("there.bin")).unwrap() == content);
    site.ok(&["cp", "nas:there.bin", "back.bin"]).await;
    assert!(std::fs::read(site.local_path("back.bin")).unwrap() == content);
    let attributes = [source, site.on_node("there.bin"), site.local_path("back.bin")].map(|path| {
        let attributes = std::fs::metadata(path).unwrap();
        (attributes.mode() & 0o7777, attributes.mtime(), attributes.mtime_nsec())
    });
    assert!(
        attributes[0].0 == 0o741 && attributes[0] == attributes[1] && attributes[1] == attributes[2],
        "{attributes:?}"
    );

    // Into folders, with ambiguous names and empty files.
    std::fs::create_dir(site.on_node("in here")).unwrap();
    std::fs::write(site.local_path("a:b -c"), "colon").unwrap();
    std::fs::write(site.local_path("-dash"), "").unwrap();
    site.ok(&["cp", "./a:b -c", "nas:in here"]).await;
    site.ok(&["cp", "--", "-dash", "nas:in here/-dash"]).await;
    assert_eq!(std::fs::read_to_string(site.on_node("in here/a:b -c")).unwrap(), "colon");
    assert_eq!(std::fs::read_to_string(site.on_node("in here/-dash")).unwrap(), "");
    std::fs::create_dir(site.local_path("out")).unwrap();
    site.ok(&["cp", "nas:in here/a:b -c", "out"]).await;
    assert_eq!(std::fs::read_to_string(site.local_path("out/a:b -c")).unwrap(), "colon");

    let summary = site.ok(&["cp", "nas:there.bin", "json.bin", "--json"]).await;
    let events: Vec<serde_json::Value> =
        summary.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&events[0]["event"], &events[0]["bytes"]), (&"file".into(), &3_500_000.into()));
    assert_eq!((&events[1]["event"], &events[1]["carried"]), (&"summary".into(), &3_500_000.into()));
    // An identical file is not sent again.
    let again = site.ok(&["cp", "nas:there.bin", "json.bin", "--json"]).await;
    assert!(again.contains(r#""unchanged":true"#) && again.contains(r#""carried":0"#), "{again}");
    for folder in [site.plexus.home(), &site.on_node(""), &site.on_node("in here")] {
        Site::assert_no_partial_files(folder);
    }
}

/// The example of the README, on a new node.
#[tokio::test]
async fn target_with_trailing_slash_is_created_with_its_parents() {
    let site = Site::new().await;
    std::fs::write(site.local_path("report.pdf"), "a report").unwrap();
    site.ok(&["cp", "report.pdf", "nas:inbox/"]).await;
    assert_eq!(std::fs::read_to_string(site.on_node("inbox/report.pdf")).unwrap(), "a report");
    site.ok(&["cp", "report.pdf", "nas:a/b c/"]).await;
    assert_eq!(std::fs::read_to_string(site.on_node("a/b c/report.pdf")).unwrap(), "a report");
    // A command on the node sees the same folder and can create another.
    assert_eq!(site.ok(&["exec", "nas", "--", "cat", "inbox/report.pdf"]).await, "a report");
    site.ok(&["exec", "nas", "--", "mkdir", "outbox"]).await;
    assert!(site.on_node("outbox").is_dir());
    // Repeating a command has the same target, also with a folder.
    std::fs::create_dir(site.local_path("tree")).unwrap();
    std::fs::write(site.local_path("tree/leaf"), "green").unwrap();
    for _ in 0..2 {
        site.ok(&["cp", "-r", "tree", "nas:forest/"]).await;
    }
    assert_eq!(std::fs::read_to_string(site.on_node("forest/tree/leaf")).unwrap(), "green");
    assert!(!site.on_node("forest/leaf").exists() && !site.on_node("forest/tree/tree").exists());
    for _ in 0..2 {
        site.ok(&["cp", "-r", "nas:forest/tree", "back/here/"]).await;
    }
    assert_eq!(std::fs::read_to_string(site.local_path("back/here/tree/leaf")).unwrap(), "green");
    // A refused copy leaves no folder.
    assert!(site.fails_with(2, &["cp", "tree", "nas:empty/"]).await.contains("-r"));
    assert!(!site.on_node("empty").exists());
    site.fails_with(5, &["cp", "report.pdf", "nas:~/.ssh/new/"]).await;
    assert!(!site.in_node_home(".ssh").exists());
    assert!(
        site.fails_with(1, &["cp", "report.pdf", "nas:inbox/report.pdf/"]).await.contains("not a folder")
    );
}

#[tokio::test]
async fn folders_are_copied_recursively_without_symlinks() {
    let site = Site::new().await;
    let root = site.local_path("tree");
    std::fs::create_dir_all(root.join("a/b c")).unwrap();
    std::fs::create_dir_all(root.join("empty")).unwrap();
    for number in 0..30 {
        std::fs::write(root.join(format!("a/{number}")), random_bytes(number * 1000, number as u64)).unwrap();
    }
    std::fs::write(root.join("a/b c/deep"), "deep").unwrap();
    symlink("/etc/passwd", root.join("link")).unwrap();
    assert!(site.fails_with(2, &["cp", "tree", "nas:"]).await.contains("-r"));
    let (code, _, stderr) = site.run(&["cp", "-r", "tree", "nas:"]).await;
    assert!(code == 0 && stderr.contains("skipped: ") && stderr.contains("tree/link"), "{stderr}");
    site.ok(&["cp", "-r", "nas:tree", "copy"]).await;
    std::fs::remove_file(root.join("link")).unwrap();
    let same = site.plexus.shell("diff -r tree copy").await;
    assert_eq!((same.ok(), site.on_node("tree/link").exists()), ("", false));
    // Identical files are skipped, and changed ones are not replaced without --force.
    std::fs::write(site.on_node("tree/a/7"), "changed there").unwrap();
    let (code, _, stderr) = site.run(&["cp", "-r", "tree", "nas:"]).await;
    assert!(code == 1 && stderr.contains("tree/a/7") && stderr.contains("--force"), "{stderr}");
    assert_eq!(std::fs::read_to_string(site.on_node("tree/a/7")).unwrap(), "changed there");
    site.ok(&["cp", "-rf", "tree", "nas:"]).await;
    assert!(std::fs::read(site.on_node("tree/a/7")).unwrap() == random_bytes(7000, 7));
}

#[tokio::test]
async fn forbidden_and_existing_targets_are_refused_and_unchanged() {
    let site = Site::new().await;
    std::fs::write(site.local_path("file"), "mine").unwrap();
    std::fs::write(site.on_node("file"), "theirs").unwrap();
    std::fs::create_dir_all(site.in_node_home(".ssh")).unwrap();
    std::fs::write(site.in_node_home(".ssh/id"), "a key").unwrap();
    symlink(site.in_node_home(".ssh/id"), site.on_node("innocent")).unwrap();
    symlink("/etc", site.on_node("etc")).unwrap();
    symlink(site.in_node_home(".ssh"), site.on_node("keys")).unwrap();

    for target in ["nas:file", "nas:./file", "nas:x/../file"] {
        std::fs::create_dir_all(site.on_node("x")).unwrap();
        let stderr = site.fails_with(1, &["cp", "file", target]).await;
        assert!(stderr.contains("already exists") && stderr.contains("--force"), "{target}: {stderr}");
    }
    assert_eq!(std::fs::read_to_string(site.on_node("file")).unwrap(), "theirs");
    let stderr = site.fails_with(1, &["cp", "nas:file", "file"]).await;
    assert!(stderr.contains("--force"), "{stderr}");
    assert_eq!(std::fs::read_to_string(site.local_path("file")).unwrap(), "mine");

    // Refused by the machine's policy, however the path is written.
    for source in [
        "nas:~/.ssh/id",
        "nas:innocent",
        "nas:keys/id",
        "nas:../.ssh/id",
        "nas:x/../../.ssh/id",
        "nas:~/.local/share/plexus-node/credential.json",
    ] {
        let stderr = site.fails_with(5, &["cp", source, "stolen"]).await;
        assert!(stderr.contains("no tool can access"), "{source}: {stderr}");
        assert!(!site.local_path("stolen").exists());
    }
    for target in [
        "nas:/etc/plexus-test",
        "nas:etc/plexus-test",
        "nas:~/.ssh/authorized_keys",
        "nas:keys/new",
        "nas:~/.bashrc",
    ] {
        site.fails_with(5, &["cp", "--force", "file", target]).await;
    }
    assert!(!std::path::Path::new("/etc/plexus-test").exists() && !site.in_node_home(".bashrc").exists());
    assert_eq!(std::fs::read_dir(site.in_node_home(".ssh")).unwrap().count(), 1);
    assert!(site.fails_with(1, &["cp", "nas:/proc/self/environ", "env"]).await.contains("kernel"));
    assert!(site.fails_with(1, &["cp", "nas:nothing", "x"]).await.contains("does not exist"));
    assert!(site.fails_with(1, &["cp", "nothing", "nas:x"]).await.contains("nothing does not exist"));
    assert!(site.fails_with(1, &["cp", "file", "nas:no/such/folder/x"]).await.contains("does not exist"));
    assert!(site.fails_with(1, &["cp", "file", "elsewhere:x"]).await.contains("there is no node"));
    assert!(site.fails_with(2, &["cp", "file", "copy"]).await.contains("both sides"));
    assert!(site.fails_with(2, &["cp", "nas:file", "nas:copy"]).await.contains("this machine first"));
    site.ok(&["cp", "--force", "file", "nas:file"]).await;
    assert_eq!(std::fs::read_to_string(site.on_node("file")).unwrap(), "mine");

    // Scopes for the tool and for the node are required.
    for (scopes, allowed) in [
        (["call:transfer", "node:nas"], true),
        (["call:terminal", "node:nas"], false),
        (["call:transfer", "node:other"], false),
    ] {
        let name = format!("t{}", scopes.join("-").replace(':', ""));
        let args = [
            "token", "create", "--kind", "agent", "--name", &name, "--scope", scopes[0], "--scope", scopes[1],
        ];
        let token = site.plexus.run(&[&args[..], &["--json"]].concat()).await.json(0);
        let token = token["token"].as_str().unwrap();
        let target = site.local_path(&name).display().to_string();
        let output = site.plexus.run_with(&["cp", "nas:file", &target], &[("PLEXUS_TOKEN", token)]).await;
        assert_eq!(
            (output.code == Some(0), site.local_path(&name).exists()),
            (allowed, allowed),
            "{scopes:?}"
        );
    }
    // The policy file can disable the tool.
    std::fs::write(site.in_node_home(".local/share/plexus-node/node.toml"), "[tools]\noff = ['transfer']\n")
        .unwrap();
    eventually("the tool is disabled", async || {
        let (code, _, stderr) = site.run(&["cp", "nas:file", "late"]).await;
        if code == 5 || stderr.contains("has no tool") {
            return Ok(());
        }
        let _ = std::fs::remove_file(site.local_path("late"));
        Err(stderr)
    })
    .await;
    assert!(!site.local_path("late").exists());
}

#[tokio::test]
async fn copied_content_is_not_recorded_and_the_tool_is_not_listed() {
    let site = Site::new().await;
    // Text that can be searched for, also as base64.
    let marker = "zebra-crossing-42 ".repeat(20_000);
    std::fs::write(site.local_path("marked"), &marker).unwrap();
    site.ok(&["cp", "marked", "nas:marked"]).await;
    site.ok(&["cp", "nas:marked", "back"]).await;
    let audit = site.ok(&["audit", "list", "--limit", "100", "--json"]).await;
    assert!(
        audit.contains("transfer") && audit.contains("not_recorded") && audit.contains("sha256"),
        "{audit}"
    );
    let listed = site.ok(&["tools", "list"]).await;
    assert!(
        listed.contains("terminal") && !listed.contains("transfer") && !listed.contains("console"),
        "{listed}"
    );
    let token = site.hub().token("model").await;
    let client = site.hub().mcp(&token.token);
    let found = client.tool("tool_search", serde_json::json!({ "query": "transfer files console" })).await;
    assert!(!found.to_string().contains("\"transfer\""), "{found}");

    let mut site = site;
    assert!(site.hub.take().unwrap().terminate().await.success());
    site.kill_node().await;
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(&marker[..54]);
    let (mut bytes_checked, mut folders) = (0, vec![site.local_path(".local"), site.in_node_home(".local")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let content = std::fs::read(entry.path()).unwrap_or_default();
            let has = |needle: &[u8]| content.windows(needle.len()).any(|window| window == needle);
            assert!(!has(b"zebra-crossing-42") && !has(&encoded.as_bytes()[..40]), "{:?}", entry.path());
            bytes_checked += content.len();
        }
    }
    assert!(bytes_checked > 10_000, "too few bytes were checked");
}
