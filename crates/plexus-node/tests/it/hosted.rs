//! An MCP server on the node's machine: the hub sees it appear, calls it, and sees it disappear.

use plexus_kit::Environment;
use plexus_node::NodeOptions;
use plexus_proto::NodeId;
use plexus_proto::node::{CallOutcome, Frame, Hello};
use serde_json::{Value, json};

use super::scripted_hub::{ScriptedHub, TestNode};

/// An MCP server in shell, with one tool.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"greeter","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"greet","description":"Greets.","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"good day"}]}' ;;
    *'"method":"ping"'*) result='{}' ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"; continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// The next `hello` that matches.
async fn hello_with(hub: &mut ScriptedHub, matches: impl Fn(&Hello) -> bool) -> Hello {
    loop {
        if let Frame::Hello(hello) = hub.next_frame().await
            && matches(&hello)
        {
            return hello;
        }
    }
}

#[tokio::test]
async fn hosted_server_is_announced_called_and_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let servers = folder.path().join("mcp_servers.d");
    std::fs::create_dir(&servers).unwrap();
    let options = NodeOptions {
        servers: Some(servers.clone()),
        ..NodeOptions::new(NodeId::new(), folder.path().join("node"), Environment::default())
    };
    let test_node = TestNode::start(options).await;
    let (mut hub, hello) = test_node.link(&[]).await;
    assert!(hello.mcp_servers.is_empty());
    let file = servers.join("greeter.json");
    let server = json!({ "command": "/bin/sh", "args": ["-c", SERVER] });
    std::fs::write(&file, server.to_string()).unwrap();
    let has_tool = |hello: &Hello| hello.mcp_servers.iter().any(|server| !server.tools.is_empty());
    let hello = hello_with(&mut hub, has_tool).await;
    let greeter = &hello.mcp_servers[0];
    assert_eq!((greeter.name.as_str(), greeter.state.as_str()), ("greeter", "ready"));
    assert_eq!(greeter.tools[0]["name"], "mcp__greeter__greet");
    assert_eq!(greeter.tools[0]["description"], "Greets.");
    let about = ["mcp_status", "reload_tools"];
    assert!(hello.tools.iter().all(|tool| !about.contains(&tool.name.as_str())), "{:?}", hello.tools);
    let id = hub.call("mcp__greeter__greet", json!({})).await;
    let CallOutcome::Foreign(result) = hub.result(id).await else { panic!("the result of a server") };
    let content: Value = serde_json::from_str(result.content.get()).unwrap();
    assert_eq!(content[0]["text"], "good day");
    std::fs::remove_file(&file).unwrap();
    hello_with(&mut hub, |hello| hello.mcp_servers.is_empty()).await;
    test_node.supervisor.shutdown(std::time::Duration::from_secs(10)).await;
}
