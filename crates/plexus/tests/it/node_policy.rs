//! `plexus node policy`: the effective policy of a machine, and mistakes in a file.

use serde_json::Value;

const FOLDER: &str = ".local/share/plexus-node";

#[tokio::test]
async fn policy_is_shown_with_the_sandbox_that_enforces_it() {
    let plexus = crate::plexus();
    let shown = plexus.run(&["node", "policy", "--json"]).await.json(0);
    assert_eq!(shown["file_exists"], false, "{shown}");
    assert_eq!(shown["sandbox"]["asked"], "auto", "{shown}");
    let enforced = shown["sandbox"]["held"].as_str().expect("a level");
    let missing = shown["sandbox"]["missing"].as_array().expect("a list");
    // Every stronger sandbox is reported as missing.
    let stronger = ["bubblewrap", "landlock"].into_iter().take_while(|level| *level != enforced);
    for level in stronger {
        assert!(missing.iter().any(|missing| missing["level"] == level), "{shown}");
    }
    let working_folder = plexus.home().join("plexus-work");
    assert_eq!(shown["working_folder"].as_str(), working_folder.to_str(), "{shown}");
    assert!(!working_folder.exists(), "showing the policy creates no folder");
    let denied = shown["files"]["deny"].as_array().expect("a list");
    let ssh = plexus.home().join(".ssh");
    assert!(denied.iter().any(|path| path.as_str() == ssh.to_str()), "{shown}");

    let folder = plexus.home().join(FOLDER);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("node.toml"), "[sandbox]\nlevel = 'none'\n[commands]\nallow = ['git log']\n")
        .expect("a file");
    let shown = plexus.run(&["node", "policy"]).await;
    let text = shown.ok();
    assert!(text.contains(&format!("working folder\t{}", working_folder.display())), "{text}");
    assert!(text.contains("sandbox\tnone") && text.contains("allow = [\"git log\"]"), "{text}");
    assert!(text.contains(folder.to_str().expect("UTF-8")), "{text}");

    let local = plexus.run(&["node", "policy", "--local", "--json"]).await.json(0);
    let file = plexus.data_dir().join("local-node/node.toml");
    assert_eq!(local["file"].as_str(), file.to_str(), "{local}");
    let denied = local["files"]["deny"].as_array().expect("a list");
    assert!(denied.iter().any(|path| path.as_str() == plexus.data_dir().to_str()), "{local}");
}

#[tokio::test]
async fn default_file_is_valid_and_all_mistakes_of_a_file_are_reported() {
    let plexus = crate::plexus();
    let file = plexus.home().join("node.toml");
    let name = file.to_str().expect("UTF-8");
    let default = plexus.run(&["node", "policy", "--default"]).await;
    std::fs::write(&file, default.ok()).expect("a file");
    assert!(plexus.run(&["node", "policy", "--check", name]).await.ok().contains("the policy is valid"));

    std::fs::write(&file, "[files]\nread = ['work']\nwriite = []\n[sandbox]\nlevel = 'jail'\n")
        .expect("a file");
    let checked = plexus.run(&["node", "policy", "--check", name, "--json"]).await.json(1);
    let fields: Vec<&str> = checked["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["field"].as_str())
        .collect();
    assert_eq!(fields.len(), 3, "{checked}");
    assert!(fields.contains(&"files.read[0]") && fields.contains(&"sandbox.level"), "{checked}");
    assert_eq!(checked["file"], Value::from(name));
    let missing = plexus.run(&["node", "policy", "--check", "/nowhere/node.toml"]).await;
    assert!(missing.stderr.contains("does not exist"), "{missing:?}");
}
