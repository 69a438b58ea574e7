//! User-defined tools from the command line: create, test, enable, call and disable.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

#[tokio::test]
async fn custom_tool_is_created_tested_enabled_called_and_disabled() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let none = plexus.run(&["tools", "list", "--defined"]).await;
    assert!(none.stderr.contains("Create one with `plexus tools new NAME`"), "{none:?}");
    let created = plexus.run(&["tools", "new", "say_back"]).await;
    let files: Vec<&str> = created.ok().lines().collect();
    assert!(files[0].ends_with("tools.d/say_back/tool.json") && files[1].ends_with("run.sh"), "{created:?}");
    let twice = plexus.run(&["tools", "new", "say_back"]).await;
    assert!(twice.failed(1).contains("already exists"), "{twice:?}");
    let name = plexus.run(&["tools", "new", "mcp__x__y"]).await;
    assert!(name.failed(2).contains("begins as those of tools of MCP servers do"), "{name:?}");

    // It is listed at once; calling it before it is enabled is an error with a hint.
    let listed = plexus.run(&["tools", "list", "--defined"]).await;
    assert!(listed.ok().starts_with("say_back\tdisabled\t"), "{listed:?}");
    let trial = plexus.run(&["tools", "test", "say_back", "--arg", "text=hi"]).await;
    assert!(
        trial.ok().contains("works\tyes\n") && trial.ok().contains("{\"received\": {\"text\":\"hi\"}}"),
        "{trial:?}"
    );
    let wrong = plexus.run(&["tools", "test", "say_back", "--arg", "txt=hi", "--json"]).await;
    assert_eq!(wrong.json(1)["problems"][0]["path"], "/txt", "{wrong:?}");
    let wrong = plexus.run(&["tools", "test", "say_back"]).await;
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stdout.contains("works\tnot tested\nprogram\tnot started\n"), "{wrong:?}");
    assert_eq!(wrong.stderr, "error: say_back was not tested: the arguments are invalid\n");
    let off = plexus.run(&["tools", "call", "say_back", "--arg", "text=hi"]).await;
    let stderr = off.failed(1);
    assert!(stderr.contains("Unknown tool") && stderr.contains("`plexus tools enable say_back`"), "{stderr}");

    let on = plexus.run(&["tools", "enable", "say_back"]).await;
    assert!(on.ok().starts_with("Enabled say_back"), "{on:?}");
    let called = plexus.run(&["tools", "call", "say_back", "--arg", "text=hi", "--json"]).await.json(0);
    assert_eq!(called["structured"], json!({ "received": { "text": "hi" } }), "{called}");
    let listed = plexus.run(&["tools", "list", "--defined"]).await;
    assert!(listed.ok().starts_with("say_back\tenabled\tReturns its arguments."), "{listed:?}");
    // A tool that breaks while it is enabled is reported.
    std::fs::set_permissions(files[1], std::fs::Permissions::from_mode(0o600)).unwrap();
    let listed = plexus.run(&["tools", "list", "--defined"]).await;
    assert!(listed.ok().starts_with("say_back\tenabled, but invalid\t"), "{listed:?}");
    let broken = plexus.run(&["tools", "call", "say_back", "--arg", "text=hi"]).await;
    assert!(broken.failed(1).contains("run.sh, which cannot be run; run `chmod u+x "), "{broken:?}");
    let status = plexus.run(&["status"]).await;
    assert!(status.ok().contains(" (1 enabled but broken: see `plexus tools list --defined`)"), "{status:?}");
    std::fs::set_permissions(files[1], std::fs::Permissions::from_mode(0o700)).unwrap();
    let off = plexus.run(&["tools", "disable", "say_back"]).await;
    assert_eq!(off.ok(), "Disabled say_back.\n");
    let refused_after = plexus.run(&["tools", "call", "say_back", "--arg", "text=hi"]).await;
    assert!(refused_after.failed(1).contains("Unknown tool"), "{refused_after:?}");
}

#[tokio::test]
async fn custom_tool_cannot_have_the_name_of_a_hub_tool() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let tools = plexus.run(&["tools", "list", "--json", "--limit", "500"]).await.json(0);
    let tools = tools["items"].as_array().unwrap();
    assert!(tools.len() > 5, "{tools:?}");
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        let refused = plexus.run(&["tools", "new", name]).await;
        assert!(refused.failed(2).contains("is not a valid tool name"), "{name}: {refused:?}");
    }
    let refused = plexus.run(&["tools", "new", "todo"]).await;
    assert!(refused.failed(2).contains("it is that of a tool of the hub"), "{refused:?}");
}
