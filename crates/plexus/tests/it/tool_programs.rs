//! User-defined tools from the command line: made, tried, switched on, called, switched off.

use serde_json::json;

#[tokio::test]
async fn a_tool_is_made_tried_switched_on_called_and_switched_off() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let none = plexus.run(&["tools", "list", "--defined"]).await;
    assert!(none.stderr.contains("`plexus tools new NAME` makes one"), "{none:?}");
    let made = plexus.run(&["tools", "new", "say_back"]).await;
    let files: Vec<&str> = made.ok().lines().collect();
    assert!(files[0].ends_with("tools.d/say_back/tool.json") && files[1].ends_with("run.sh"), "{made:?}");
    let twice = plexus.run(&["tools", "new", "say_back"]).await;
    assert!(twice.failed(1).contains("there is already"), "{twice:?}");
    let name = plexus.run(&["tools", "new", "mcp__x__y"]).await;
    assert!(name.failed(2).contains("begins as those of tools of MCP servers do"), "{name:?}");

    let trial = plexus.run(&["tools", "test", "say_back", "--arg", "text=hi"]).await;
    assert!(
        trial.ok().contains("works\tyes\n") && trial.ok().contains("{\"received\": {\"text\":\"hi\"}}"),
        "{trial:?}"
    );
    let wrong = plexus.run(&["tools", "test", "say_back", "--arg", "txt=hi", "--json"]).await;
    assert_eq!(wrong.json(1)["problems"][0]["path"], "/txt", "{wrong:?}");
    let off = plexus.run(&["tools", "call", "say_back", "--arg", "text=hi"]).await;
    assert!(off.failed(1).contains("Unknown tool"), "{off:?}");

    let on = plexus.run(&["tools", "enable", "say_back"]).await;
    assert!(on.ok().starts_with("say_back is on"), "{on:?}");
    let called = plexus.run(&["tools", "call", "say_back", "--arg", "text=hi", "--json"]).await.json(0);
    assert_eq!(called["structured"], json!({ "received": { "text": "hi" } }), "{called}");
    let listed = plexus.run(&["tools", "list", "--defined"]).await;
    assert!(listed.ok().starts_with("say_back\ton\tSays back what it was given."), "{listed:?}");
    let off = plexus.run(&["tools", "disable", "say_back"]).await;
    assert_eq!(off.ok(), "say_back is off.\n");
    let gone = plexus.run(&["tools", "call", "say_back", "--arg", "text=hi"]).await;
    assert!(gone.failed(1).contains("Unknown tool"), "{gone:?}");
}
