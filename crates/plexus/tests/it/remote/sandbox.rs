//! The sandbox of a node: the hub shows the level that restricts its commands.

use super::Site;

/// The mount namespace of commands on the node.
async fn mounts(site: &Site) -> String {
    site.ok(&["exec", "nas", "--", "readlink", "/proc/self/ns/mnt"]).await.trim().to_owned()
}

#[tokio::test]
async fn hub_shows_the_level_that_restricts_commands() {
    let site = Site::new().await;
    site.is_sandboxed().await;
    let shown = site.nas.run(&["node", "policy", "--json"]).await.json(0);
    let nas = site.hub().api_until("/api/v1/nodes/nas", |_| true).await;
    assert_eq!(nas["sandbox"], shown["sandbox"]["held"], "{shown}");
    let missing = shown["sandbox"]["missing"].as_array().expect("a list");
    let own_mounts = std::fs::read_link("/proc/self/ns/mnt").expect("a namespace").display().to_string();
    for level in ["landlock", "bubblewrap", "none"] {
        if missing.iter().any(|missing| missing["level"] == level) {
            continue;
        }
        let policy = site.in_node_home(".local/share/plexus-node/node.toml");
        std::fs::write(policy, format!("[sandbox]\nlevel = '{level}'\n")).expect("a policy");
        site.hub().api_until("/api/v1/nodes/nas", |node| node["sandbox"] == level).await;
        let new = site.in_node_home(&format!("new-{level}"));
        let (code, _, stderr) = site.run(&["exec", "nas", "--", "mkdir", &new.display().to_string()]).await;
        assert_eq!((code == 0, new.exists()), (level == "none", level == "none"), "{level}: {stderr}");
        assert_eq!(mounts(&site).await == own_mounts, level != "bubblewrap", "{level}");
    }
}
