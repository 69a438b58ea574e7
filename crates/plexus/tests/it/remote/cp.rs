//! Copies that nothing disturbs: what arrives, what is refused, and what is left of it.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::{Site, noise};

#[tokio::test]
async fn files_go_both_ways_with_mode_and_time_and_under_odd_names() {
    let site = Site::new().await;
    let content = noise(3_500_000, 1);
    let source = site.here("photo.bin");
    std::fs::write(&source, &content).unwrap();
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o741)).unwrap();
    site.ok(&["cp", "photo.bin", "nas:there.bin"]).await;
    assert!(std::fs::read(site.there("there.bin")).unwrap() == content);
    site.ok(&["cp", "nas:there.bin", "back.bin"]).await;
    assert!(std::fs::read(site.here("back.bin")).unwrap() == content);
    let about = [source, site.there("there.bin"), site.here("back.bin")].map(|path| {
        let about = std::fs::metadata(path).unwrap();
        (about.mode() & 0o7777, about.mtime(), about.mtime_nsec())
    });
    assert!(about[0].0 == 0o741 && about[0] == about[1] && about[1] == about[2], "{about:?}");

    // Into folders, from the working folder on, with names that look like something else; empty ones too.
    std::fs::create_dir(site.there("in here")).unwrap();
    std::fs::write(site.here("a:b -c"), "colon").unwrap();
    std::fs::write(site.here("-dash"), "").unwrap();
    site.ok(&["cp", "./a:b -c", "nas:in here"]).await;
    site.ok(&["cp", "--", "-dash", "nas:in here/-dash"]).await;
    assert_eq!(std::fs::read_to_string(site.there("in here/a:b -c")).unwrap(), "colon");
    assert_eq!(std::fs::read_to_string(site.there("in here/-dash")).unwrap(), "");
    std::fs::create_dir(site.here("out")).unwrap();
    site.ok(&["cp", "nas:in here/a:b -c", "out"]).await;
    assert_eq!(std::fs::read_to_string(site.here("out/a:b -c")).unwrap(), "colon");

    let summary = site.ok(&["cp", "nas:there.bin", "json.bin", "--json"]).await;
    let events: Vec<serde_json::Value> =
        summary.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&events[0]["event"], &events[0]["bytes"]), (&"file".into(), &3_500_000.into()));
    assert_eq!((&events[1]["event"], &events[1]["carried"]), (&"summary".into(), &3_500_000.into()));
    // There already, and the same: nothing is carried.
    let again = site.ok(&["cp", "nas:there.bin", "json.bin", "--json"]).await;
    assert!(again.contains(r#""unchanged":true"#) && again.contains(r#""carried":0"#), "{again}");
    for folder in [site.plexus.home(), &site.there(""), &site.there("in here")] {
        Site::nothing_left_in(folder);
    }
}

/// As the README has it, on a node that nothing was prepared on.
#[tokio::test]
async fn target_that_ends_with_a_slash_is_made_with_the_folders_above_it() {
    let site = Site::new().await;
    std::fs::write(site.here("report.pdf"), "a report").unwrap();
    site.ok(&["cp", "report.pdf", "nas:inbox/"]).await;
    assert_eq!(std::fs::read_to_string(site.there("inbox/report.pdf")).unwrap(), "a report");
    site.ok(&["cp", "report.pdf", "nas:a/b c/"]).await;
    assert_eq!(std::fs::read_to_string(site.there("a/b c/report.pdf")).unwrap(), "a report");
    // A command there sees the same folder, and can make another.
    assert_eq!(site.ok(&["exec", "nas", "--", "cat", "inbox/report.pdf"]).await, "a report");
    site.ok(&["exec", "nas", "--", "mkdir", "outbox"]).await;
    assert!(site.there("outbox").is_dir());
    // The same command twice ends in the same place, also with a folder.
    std::fs::create_dir(site.here("tree")).unwrap();
    std::fs::write(site.here("tree/leaf"), "green").unwrap();
    for _ in 0..2 {
        site.ok(&["cp", "-r", "tree", "nas:forest/"]).await;
    }
    assert_eq!(std::fs::read_to_string(site.there("forest/tree/leaf")).unwrap(), "green");
    assert!(!site.there("forest/leaf").exists() && !site.there("forest/tree/tree").exists());
    for _ in 0..2 {
        site.ok(&["cp", "-r", "nas:forest/tree", "back/here/"]).await;
    }
    assert_eq!(std::fs::read_to_string(site.here("back/here/tree/leaf")).unwrap(), "green");
    // What is refused leaves no folder behind.
    assert!(site.fails(2, &["cp", "tree", "nas:empty/"]).await.contains("-r"));
    assert!(!site.there("empty").exists());
    site.fails(5, &["cp", "report.pdf", "nas:~/.ssh/new/"]).await;
    assert!(!site.at_home(".ssh").exists());
    assert!(site.fails(1, &["cp", "report.pdf", "nas:inbox/report.pdf/"]).await.contains("not a folder"));
}

#[tokio::test]
async fn folders_are_copied_with_all_that_is_in_them_but_links() {
    let site = Site::new().await;
    let root = site.here("tree");
    std::fs::create_dir_all(root.join("a/b c")).unwrap();
    std::fs::create_dir_all(root.join("empty")).unwrap();
    for number in 0..30 {
        std::fs::write(root.join(format!("a/{number}")), noise(number * 1000, number as u64)).unwrap();
    }
    std::fs::write(root.join("a/b c/deep"), "deep").unwrap();
    symlink("/etc/passwd", root.join("link")).unwrap();
    assert!(site.fails(2, &["cp", "tree", "nas:"]).await.contains("-r"));
    let (code, _, said) = site.run(&["cp", "-r", "tree", "nas:"]).await;
    assert!(code == 0 && said.contains("skipped: ") && said.contains("tree/link"), "{said}");
    site.ok(&["cp", "-r", "nas:tree", "copy"]).await;
    std::fs::remove_file(root.join("link")).unwrap();
    let same = site.plexus.shell("diff -r tree copy").await;
    assert_eq!((same.ok(), site.there("tree/link").exists()), ("", false));
    // What is there is found to be, and what has changed stays without --force; the rest goes on.
    std::fs::write(site.there("tree/a/7"), "changed there").unwrap();
    let (code, _, said) = site.run(&["cp", "-r", "tree", "nas:"]).await;
    assert!(code == 1 && said.contains("tree/a/7") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read_to_string(site.there("tree/a/7")).unwrap(), "changed there");
    site.ok(&["cp", "-rf", "tree", "nas:"]).await;
    assert!(std::fs::read(site.there("tree/a/7")).unwrap() == noise(7000, 7));
}

#[tokio::test]
async fn what_is_not_to_be_reached_or_replaced_is_refused_and_stays_as_it_is() {
    let site = Site::new().await;
    std::fs::write(site.here("file"), "mine").unwrap();
    std::fs::write(site.there("file"), "theirs").unwrap();
    std::fs::create_dir_all(site.at_home(".ssh")).unwrap();
    std::fs::write(site.at_home(".ssh/id"), "a key").unwrap();
    symlink(site.at_home(".ssh/id"), site.there("innocent")).unwrap();
    symlink("/etc", site.there("etc")).unwrap();
    symlink(site.at_home(".ssh"), site.there("keys")).unwrap();

    for target in ["nas:file", "nas:./file", "nas:x/../file"] {
        std::fs::create_dir_all(site.there("x")).unwrap();
        let said = site.fails(1, &["cp", "file", target]).await;
        assert!(said.contains("already exists") && said.contains("--force"), "{target}: {said}");
    }
    assert_eq!(std::fs::read_to_string(site.there("file")).unwrap(), "theirs");
    let said = site.fails(1, &["cp", "nas:file", "file"]).await;
    assert!(said.contains("--force"), "{said}");
    assert_eq!(std::fs::read_to_string(site.here("file")).unwrap(), "mine");

    // By the policy of the machine, however the path is written.
    for source in [
        "nas:~/.ssh/id",
        "nas:innocent",
        "nas:keys/id",
        "nas:../.ssh/id",
        "nas:x/../../.ssh/id",
        "nas:~/.local/share/plexus-node/credential.json",
    ] {
        let said = site.fails(5, &["cp", source, "stolen"]).await;
        assert!(said.contains("no tool can access"), "{source}: {said}");
        assert!(!site.here("stolen").exists());
    }
    for target in [
        "nas:/etc/plexus-test",
        "nas:etc/plexus-test",
        "nas:~/.ssh/authorized_keys",
        "nas:keys/new",
        "nas:~/.bashrc",
    ] {
        site.fails(5, &["cp", "--force", "file", target]).await;
    }
    assert!(!std::path::Path::new("/etc/plexus-test").exists() && !site.at_home(".bashrc").exists());
    assert_eq!(std::fs::read_dir(site.at_home(".ssh")).unwrap().count(), 1);
    assert!(site.fails(1, &["cp", "nas:/proc/self/environ", "env"]).await.contains("kernel"));
    assert!(site.fails(1, &["cp", "nas:nothing", "x"]).await.contains("does not exist"));
    assert!(site.fails(1, &["cp", "file", "nas:no/such/folder/x"]).await.contains("does not exist"));
    assert!(site.fails(1, &["cp", "file", "elsewhere:x"]).await.contains("there is no node"));
    assert!(site.fails(2, &["cp", "file", "copy"]).await.contains("both sides"));
    assert!(site.fails(2, &["cp", "nas:file", "nas:copy"]).await.contains("this machine first"));
    site.ok(&["cp", "--force", "file", "nas:file"]).await;
    assert_eq!(std::fs::read_to_string(site.there("file")).unwrap(), "mine");

    // By scopes: the tool, and the machine.
    for (scopes, works) in [
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
        let target = site.here(&name).display().to_string();
        let ran = site.plexus.run_with(&["cp", "nas:file", &target], &[("PLEXUS_TOKEN", token)]).await;
        assert_eq!((ran.code == Some(0), site.here(&name).exists()), (works, works), "{scopes:?}");
    }
    // The owner has the last word.
    std::fs::write(site.at_home(".local/share/plexus-node/node.toml"), "[tools]\noff = ['transfer']\n")
        .unwrap();
    let begun = std::time::Instant::now();
    loop {
        let (code, _, said) = site.run(&["cp", "nas:file", "late"]).await;
        if code == 5 || said.contains("has no tool") {
            break;
        }
        assert!(begun.elapsed() < super::PATIENCE, "{said}");
        let _ = std::fs::remove_file(site.here("late"));
    }
    assert!(!site.here("late").exists());
}

#[tokio::test]
async fn what_is_carried_is_in_no_record_and_in_no_list() {
    let site = Site::new().await;
    // Text, so that it would be found wherever it stood, also as base64.
    let marker = "zebra-crossing-42 ".repeat(20_000);
    std::fs::write(site.here("marked"), &marker).unwrap();
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
    let (mut looked_at, mut waiting) = (0, vec![site.here(".local"), site.at_home(".local")]);
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
                continue;
            }
            let content = std::fs::read(entry.path()).unwrap_or_default();
            let has = |needle: &[u8]| content.windows(needle.len()).any(|window| window == needle);
            assert!(!has(b"zebra-crossing-42") && !has(&encoded.as_bytes()[..40]), "{:?}", entry.path());
            looked_at += content.len();
        }
    }
    assert!(looked_at > 10_000, "there is something to look at");
}
