//! The cost of tools over REST: whose list, which parts, and who may ask.

use plexus_testkit::fixture::Eras;
use plexus_testkit::{TestHub, stdio_fixture};
use serde_json::{Value, json};

use crate::client::Client;

fn sum(items: &Value, field: &str) -> u64 {
    items.as_array().unwrap().iter().map(|item| item[field].as_u64().unwrap()).sum()
}

fn server(cost: &Value, name: Option<&str>) -> Value {
    let servers = cost["servers"].as_array().unwrap();
    let found = servers.iter().find(|server| server["server"].as_str() == name);
    found.unwrap_or_else(|| panic!("no {name:?}: {cost}")).clone()
}

#[tokio::test]
async fn every_visible_tool_server_and_instruction_is_counted() {
    let hub = TestHub::start().await;
    let mut document = stdio_fixture(Eras::Both);
    hub.add_upstream("fix", &document).await;
    let admin = Client::admin(&hub);
    let cost = admin.get("/tools/cost").await.ok();
    assert_eq!((&cost["tokenizer"], &cost["profile"]), (&json!("o200k_base"), &Value::Null));
    let listed = admin.get("/tools?limit=200").await.ok();
    assert_eq!(cost["tools"].as_array().unwrap().len(), listed["items"].as_array().unwrap().len());
    let total = cost["tokens"].as_u64().unwrap();
    assert_eq!(total, sum(&cost["servers"], "tokens"));
    let (hub_itself, fixture) = (server(&cost, None), server(&cost, Some("fix")));
    assert!(hub_itself["instruction_tokens"].as_u64().unwrap() > 10, "{hub_itself}");
    assert_eq!(sum(&cost["tools"], "tokens"), sum(&cost["servers"], "tool_tokens"));
    let share = fixture["share"].as_f64().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let exact = fixture["tokens"].as_u64().unwrap() as f64 * 100.0 / total as f64;
    assert!((share - exact).abs() < 0.06, "{fixture} of {total}");

    // The instructions in its file cost tokens too, and are attributed to the server.
    document["instructions"] = json!("Use it for work only. ".repeat(20));
    hub.add_upstream("fix", &document).await;
    let after = server(&admin.get("/tools/cost").await.ok(), Some("fix"));
    assert_eq!(after["tool_tokens"], fixture["tool_tokens"]);
    let more =
        after["instruction_tokens"].as_u64().unwrap() - fixture["instruction_tokens"].as_u64().unwrap();
    assert!((100..200).contains(&more), "{more}: {after}");

    // A token that sees fewer tools has a lower cost, and learns of no other tools.
    let narrow = Client::agent(&hub, "narrow", &["call:todo"]).await.get("/tools/cost").await.ok();
    assert_eq!(narrow["tools"].as_array().unwrap().len(), 1);
    assert!(!narrow.to_string().contains("fix"), "{narrow}");
}

#[tokio::test]
async fn profile_cost_is_for_admins_and_tokens_of_the_profile() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    let discuss = admin.get("/tools/cost?profile=discuss").await.ok();
    let mut names: Vec<&str> =
        discuss["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(
        (names.as_slice(), &discuss["profile"]),
        (&["scratchpad", "session_info"][..], &json!("discuss"))
    );
    // Tools for admins are not counted for the agents of a profile.
    let secretary = admin.get("/tools/cost?profile=secretary").await.ok();
    assert!(!secretary.to_string().contains("reload_tools"), "{secretary}");
    assert_eq!(admin.get("/tools/cost?profile=nobody").await.refused(404), "not_found");
    let token_params = json!({ "kind": "agent", "name": "d", "profile": "discuss" });
    let token = admin.post("/tokens", &token_params).await.ok()["token"].as_str().unwrap().to_owned();
    let agent = Client::with_token(&hub, token);
    for path in ["/tools/cost", "/tools/cost?profile=discuss"] {
        assert_eq!(agent.get(path).await.ok(), discuss, "{path}");
    }
    let refused: Vec<Value> =
        [agent.get("/tools/cost?profile=secretary").await, agent.get("/tools/cost?profile=nobody").await]
            .into_iter()
            .map(|answer| {
                assert_eq!(answer.refused(403), "forbidden");
                answer.body["message"].clone()
            })
            .collect();
    assert_eq!(refused[0], refused[1], "the answer does not reveal whether a profile exists");
}
