//! Arguments that a tool wants to see repeated in headers, from clients of 2026-07-28.

use plexus_testkit::fixture::{Eras, Fixture};
use plexus_testkit::{McpClient, TestHub};
use serde_json::{Value, json};

const TOOL: &str = "mcp__fix__test_header_annotations";

type Headers<'h> = &'h [(&'h str, &'h str)];

/// Makes a call with these headers; returns the status, the error code and the text.
async fn call(
    client: &McpClient,
    tool: &str,
    arguments: Value,
    headers: &[(&str, &str)],
) -> (u16, i64, String) {
    let client = headers.iter().fold(client.clone(), |client, (name, value)| client.header(name, value));
    let answer = client.modern("tools/call", json!({ "name": tool, "arguments": arguments })).await;
    let body = answer.json();
    let text = body["error"]["message"].as_str().or(body["result"]["content"][0]["text"].as_str());
    (answer.status, body["error"]["code"].as_i64().unwrap_or_default(), text.unwrap_or_default().to_owned())
}

#[tokio::test]
async fn marked_arguments_must_be_in_the_headers_whatever_the_era_of_the_server() {
    for eras in [Eras::Stateless, Eras::Sessions] {
        let fixture = Fixture::new().only(eras).start().await;
        let hub = TestHub::start().await;
        hub.add_upstream("fix", &json!({ "url": fixture.url() })).await;
        let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
        let all = json!({ "region": "Köln", "replicas": 3, "dry_run": true, "note": "x" });
        let encoded = ("Mcp-Param-Region", "=?base64?S8O2bG4=?=");
        let (three, yes) = (("mcp-param-replicas", "3"), ("Mcp-Param-Dry-Run", "true"));

        let right: [(Value, Headers<'_>); 5] = [
            (all.clone(), &[encoded, three, yes]),
            (all.clone(), &[encoded, ("mcp-param-replicas", "3.0"), yes]),
            (all.clone(), &[encoded, three, yes, ("Mcp-Param-Nobodys", "x")]),
            (json!({ "region": "=?base64?SGVsbG8=" }), &[("Mcp-Param-Region", "=?base64?SGVsbG8=")]),
            (json!({}), &[]),
        ];
        for (arguments, headers) in right {
            let (status, code, text) = call(&client, TOOL, arguments.clone(), headers).await;
            assert_eq!((status, code), (200, 0), "{eras:?} {arguments} {headers:?}: {text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), arguments, "{headers:?}");
        }

        let wrong: [(Value, Headers<'_>, &str); 7] = [
            (all.clone(), &[three, yes], "mcp-param-region is missing"),
            (all.clone(), &[encoded, ("mcp-param-replicas", "4"), yes], "mcp-param-replicas is \"4\""),
            (all.clone(), &[encoded, ("mcp-param-replicas", "three"), yes], "is \"three\""),
            (
                all.clone(),
                &[encoded, three, ("mcp-param-dry-run", "1")],
                "is \"1\", but the body has \"true\"",
            ),
            (all, &[("Mcp-Param-Region", "=?base64?S8O2bG4?="), three, yes], "not valid Base64"),
            (json!({}), &[("Mcp-Param-Region", "eu")], "but the argument is missing"),
            (json!({ "region": null }), &[("Mcp-Param-Region", "null")], "but the argument is missing"),
        ];
        for (arguments, headers, why) in wrong {
            let (status, code, text) = call(&client, TOOL, arguments, headers).await;
            assert_eq!((status, code), (400, -32020), "{eras:?} {headers:?}: {text}");
            assert!(text.contains(why), "{eras:?} {headers:?}: {text}");
        }
        let ran = hub.api(&format!("/api/v1/audit?tool={TOOL}")).await;
        assert_eq!(ran["items"].as_array().unwrap().len(), 5, "what was refused did not run");
    }
}

#[tokio::test]
async fn a_header_twice_is_refused_and_tool_call_repeats_nothing() {
    let fixture = Fixture::new().only(Eras::Stateless).start().await;
    let hub = TestHub::start().await;
    hub.add_upstream("fix", &json!({ "url": fixture.url() })).await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let twice = client.header("mcp-param-region", "eu").another_header("mcp-param-region", "us");
    let (status, code, text) = call(&twice, TOOL, json!({ "region": "eu" }), &[]).await;
    assert_eq!((status, code), (400, -32020), "{text}");
    let inside = json!({ "name": TOOL, "arguments": { "region": "eu" } });
    let (status, code, text) = call(&client, "tool_call", inside, &[]).await;
    assert_eq!((status, code, text.as_str()), (200, 0, r#"{"region":"eu"}"#));
}

/// Before 2026-07-28 there are no such headers.
#[tokio::test]
async fn a_client_with_a_session_repeats_nothing() {
    let fixture = Fixture::new().only(Eras::Stateless).start().await;
    let hub = TestHub::start().await;
    hub.add_upstream("fix", &json!({ "url": fixture.url() })).await;
    let client = hub.mcp(&hub.token("old", &["call:*"]).await.token);
    let (client, _) = client.initialize("2025-11-25").await;
    let call = json!({ "name": TOOL, "arguments": { "region": "eu" } });
    let result = client.call("tools/call", call).await.result();
    assert_eq!(result["content"][0]["text"], r#"{"region":"eu"}"#);
}
