//! What servers offer beside tools.

use plexus_testkit::{ClientRevision, InteractiveClient};
use serde_json::{Value, json};

use super::matrix::AttemptOutcome;
use super::{Direction, Era, Scene, ended, in_every_direction};

const TEXT: &str = "test://static-text";

fn texts<'v>(list: &'v [Value], member: &str) -> Vec<&'v str> {
    list.iter().filter_map(|entry| entry[member].as_str()).collect()
}

#[tokio::test]
async fn bridging_resources_are_listed_and_read() {
    in_every_direction("resources: lists, templates, reads", async |scene, direction| {
        let client = scene.client(direction, json!({})).await;
        let resources = scene.listed(&client, "resources/list", "resources").await;
        assert!(texts(&resources, "uri").contains(&TEXT), "{direction:?}: {resources:?}");
        let templates = scene.listed(&client, "resources/templates/list", "resourceTemplates").await;
        assert_eq!(texts(&templates, "uriTemplate"), ["test://template/{id}/data"], "{direction:?}");
        for (uri, expected_text) in [(TEXT, "static text"), ("test://template/42/data", "Data for ID: 42")] {
            let read = client.request("resources/read", json!({ "uri": uri })).await;
            let outcome = ended(read, |result| {
                assert_eq!(result["contents"][0]["uri"], uri, "{direction:?}: {result}");
                let text = result["contents"][0]["text"].as_str().unwrap_or_default();
                assert!(text.contains(expected_text), "{direction:?}: {text}");
            });
            if outcome != AttemptOutcome::Passed {
                return outcome;
            }
        }
        let binary = client.request("resources/read", json!({ "uri": "test://static-binary" })).await;
        ended(binary, |result| assert!(result["contents"][0]["blob"].is_string(), "{direction:?}: {result}"))
    })
    .await;
}

#[tokio::test]
async fn bridging_an_unknown_resource_has_the_code_of_the_revision() {
    in_every_direction("the error of a resource that is not there", async |scene, direction| {
        let client = scene.client(direction, json!({})).await;
        scene.listed(&client, "resources/list", "resources").await;
        let error = client.request("resources/read", json!({ "uri": "test://nowhere" })).await.unwrap_err();
        let code = if direction.client == Era::Session { -32002 } else { -32602 };
        assert_eq!(
            (error.code, &error.data["uri"]),
            (code, &json!("test://nowhere")),
            "{direction:?}: {error:?}"
        );
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_read_resources_are_private() {
    in_every_direction("`cacheScope` and `ttlMs` of what is read", async |scene, direction| {
        let client = scene.client(direction, json!({})).await;
        scene.listed(&client, "resources/list", "resources").await;
        ended(client.request("resources/read", json!({ "uri": TEXT })).await, |result| {
            assert_eq!(result["cacheScope"], "private", "{direction:?}: {result}");
            assert_eq!(result["ttlMs"], 1_000, "{direction:?}: what the server lets its clients keep");
        })
    })
    .await;
}

#[tokio::test]
async fn bridging_prompts_are_listed_and_got() {
    in_every_direction("prompts: list, get", async |scene, direction| {
        let client = scene.client(direction, json!({})).await;
        let prompts = scene.listed(&client, "prompts/list", "prompts").await;
        let name = direction.tool("test_prompt_with_arguments");
        let prompt = prompts.iter().find(|prompt| prompt["name"] == name.as_str());
        assert_eq!(
            prompt.map(|prompt| prompt["arguments"][0]["name"].clone()),
            Some(json!("arg1")),
            "{direction:?}"
        );
        let unknown =
            client.request("prompts/get", json!({ "name": direction.tool("nothing") })).await.unwrap_err();
        assert_eq!(unknown.code, -32602, "{direction:?}: {unknown:?}");
        let arguments = json!({ "arg1": "one", "arg2": "two" });
        let got = client.request("prompts/get", json!({ "name": name, "arguments": arguments })).await;
        ended(got, |result| {
            let text = &result["messages"][0]["content"]["text"];
            assert_eq!(text, "Prompt with arguments: arg1='one', arg2='two'", "{direction:?}: {result}");
        })
    })
    .await;
}

#[tokio::test]
async fn bridging_arguments_are_completed() {
    in_every_direction("completion", async |scene, direction| {
        let client = scene.client(direction, json!({})).await;
        scene.listed(&client, "prompts/list", "prompts").await;
        let name = direction.tool("test_prompt_with_arguments");
        let params = json!({
            "ref": { "type": "ref/prompt", "name": name },
            "argument": { "name": "arg1", "value": "par" },
        });
        ended(client.request("completion/complete", params).await, |result| {
            assert_eq!(result["completion"]["values"], json!(["paris", "park", "party"]), "{direction:?}");
        })
    })
    .await;
}

async fn with_scopes(scene: &Scene, scopes: &[&str]) -> InteractiveClient {
    let token = scene.hub.token("scoped", scopes).await.token;
    InteractiveClient::connect(&scene.hub, &token, ClientRevision::Stateless, json!({})).await
}

#[tokio::test]
async fn bridging_equal_uris_of_two_servers_are_distinct() {
    let scene = Scene::start().await;
    for direction in [Direction::ALL[2], Direction::ALL[3]] {
        let narrow_client = scene.client(direction, json!({})).await;
        scene.listed(&narrow_client, "resources/list", "resources").await;
    }
    let client = with_scopes(&scene, &["call:*"]).await;
    let listed = scene.listed(&client, "resources/list", "resources").await;
    let uris = texts(&listed, "uri");
    for server in ["old", "new"] {
        let uri = format!("plexus+mcp://{server}/{TEXT}");
        assert!(uris.contains(&uri.as_str()), "{uris:?}");
        let read = client.request("resources/read", json!({ "uri": uri })).await.expect("a resource");
        assert_eq!(read["contents"][0]["uri"], uri.as_str());
        let audit = scene.hub.api(&format!("/api/v1/audit?tool=mcp__{server}.resources&limit=5")).await;
        assert_eq!(audit["items"].as_array().map(Vec::len), Some(1), "{audit}");
        assert_eq!(audit["items"][0]["outcome"], "ok", "{audit}");
    }
    assert!(!uris.contains(&TEXT), "which of the two it is nobody could tell: {uris:?}");
    let error = client.request("resources/read", json!({ "uri": TEXT })).await.unwrap_err();
    assert!(
        error.message.contains("plexus+mcp://old/") && error.message.contains("plexus+mcp://new/"),
        "{error:?}"
    );
}

#[tokio::test]
async fn bridging_out_of_scope_offers_are_unreachable() {
    let scene = Scene::start().await;
    let all_capabilities = with_scopes(&scene, &["call:*"]).await;
    for direction in [Direction::ALL[2], Direction::ALL[3]] {
        let narrow_client = scene.client(direction, json!({})).await;
        scene.listed(&narrow_client, "prompts/list", "prompts").await;
        scene.listed(&narrow_client, "resources/list", "resources").await;
    }
    let uri = format!("plexus+mcp://old/{TEXT}");
    all_capabilities.request("resources/read", json!({ "uri": uri })).await.expect("it is there");

    // Tools of a server are not what else it offers, and one server is not another.
    for scopes in
        [&["call:mcp__old__*"][..], &["call:mcp__new", "call:mcp__new__*"], &["call:mcp__old.prompts"]]
    {
        let client = with_scopes(&scene, scopes).await;
        let hidden = client.request("resources/read", json!({ "uri": uri })).await.unwrap_err();
        let nowhere = uri.replace("/old/", "/nix/");
        let missing = client.request("resources/read", json!({ "uri": nowhere })).await.unwrap_err();
        assert_eq!(hidden.code, missing.code, "{scopes:?}");
        assert_eq!(hidden.message.replace("/old/", "/nix/"), missing.message, "{scopes:?}");
        let list = client.request("resources/list", json!({})).await.expect("a list");
        assert!(!list.to_string().contains("/old/"), "{scopes:?}: {list}");
        let params = json!({
            "ref": { "type": "ref/resource", "uri": "plexus+mcp://old/test://template/{id}/data" },
            "argument": { "name": "id", "value": "1" },
        });
        assert_eq!(
            client.request("completion/complete", params).await.unwrap_err().code,
            -32602,
            "{scopes:?}"
        );
        let mut news = client.listen(&["resources"], &[&uri]).await;
        assert_eq!(news.acknowledged, json!({ "resourcesListChanged": true }), "{scopes:?}");
        let touch = json!({ "uri": TEXT });
        all_capabilities.tool_text("mcp__old__touch_resource", touch).await;
        assert_eq!(news.until_quiet().await, Vec::<Value>::new(), "{scopes:?}");
    }

    let one = with_scopes(&scene, &["call:mcp__old.prompts.test_simple_prompt"]).await;
    let prompts = scene.listed(&one, "prompts/list", "prompts").await;
    assert_eq!(texts(&prompts, "name"), ["mcp__old__test_simple_prompt"]);
    one.request("prompts/get", json!({ "name": "mcp__old__test_simple_prompt" })).await.expect("a prompt");
    let other = one.request("prompts/get", json!({ "name": "mcp__old__test_prompt_with_image" })).await;
    assert_eq!(other.unwrap_err().code, -32602);
}
