//! `initialize`: the negotiated revision and the server's capabilities.

use plexus_testkit::TestHub;
use serde_json::json;

struct Offer {
    label: &'static str,
    offered: &'static str,
    /// Value of the `MCP-Protocol-Version` header, if the client sends one already.
    header: Option<&'static str>,
    agreed: &'static str,
}

#[rustfmt::skip]
const OFFERS: &[Offer] = &[
    Offer { label: "the oldest is echoed",        offered: "2024-11-05", header: None,               agreed: "2024-11-05" },
    Offer { label: "with batches, is echoed",     offered: "2025-03-26", header: None,               agreed: "2025-03-26" },
    Offer { label: "structured, is echoed",       offered: "2025-06-18", header: None,               agreed: "2025-06-18" },
    Offer { label: "the newest with sessions",    offered: "2025-11-25", header: None,               agreed: "2025-11-25" },
    Offer { label: "header and body agree",       offered: "2025-06-18", header: Some("2025-06-18"), agreed: "2025-06-18" },
    Offer { label: "the stateless one has none",  offered: "2026-07-28", header: None,               agreed: "2025-11-25" },
    Offer { label: "one from the future",         offered: "2099-01-01", header: None,               agreed: "2025-11-25" },
    Offer { label: "no date at all",              offered: "latest",     header: None,               agreed: "2025-11-25" },
];

#[tokio::test]
async fn initialize_agrees_to_a_known_revision_or_the_newest() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("negotiator", &["call:*"]).await.token);
    for offer in OFFERS {
        let client = match offer.header {
            Some(version) => client.header("mcp-protocol-version", version),
            None => client.clone(),
        };
        let (client, result) = client.initialize(offer.offered).await;
        assert_eq!(result["protocolVersion"], offer.agreed, "{}", offer.label);
        for (capability, value) in [
            ("tools", json!({ "listChanged": true })),
            ("prompts", json!({ "listChanged": true })),
            ("resources", json!({ "listChanged": true, "subscribe": true })),
            ("completions", json!({})),
            ("logging", json!({})),
        ] {
            assert_eq!(result["capabilities"][capability], value, "{}: {capability}", offer.label);
        }
        assert_eq!(result["serverInfo"]["name"], "plexus", "{}", offer.label);
        assert!(result["instructions"].as_str().unwrap().contains("Plexus"), "{}", offer.label);
        for modern in ["resultType", "ttlMs", "cacheScope"] {
            assert!(result.get(modern).is_none(), "{}: {modern} belongs to another era", offer.label);
        }
        // The session works in the agreed revision, which may differ from the offered one.
        let ping = client.header("mcp-protocol-version", offer.agreed).call("ping", json!({})).await;
        assert_eq!((ping.status, ping.result()), (200, json!({})), "{}", offer.label);
    }
}

#[tokio::test]
async fn initialize_without_a_revision_is_refused() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("negotiator", &["call:*"]).await.token);
    for params in [json!({}), json!({ "protocolVersion": 7 }), json!({ "protocolVersion": null })] {
        let answer = client.call("initialize", params.clone()).await;
        assert_eq!(answer.error(), (200, -32602), "{params}");
        assert_eq!(answer.header("mcp-session-id"), None, "{params}");
    }
}

#[tokio::test]
async fn session_ids_are_visible_ascii_and_unique() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("negotiator", &["call:*"]).await.token);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    let mut ids = std::collections::HashSet::new();
    for _ in 0..3 {
        let answer = client.call("initialize", params.clone()).await;
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id:?}");
        assert!(id.len() >= 32, "{id:?} can be guessed");
        assert!(ids.insert(id));
    }
}

struct HeaderCase {
    label: &'static str,
    /// None: the header is left out.
    version: Option<&'static str>,
    status: u16,
}

#[rustfmt::skip]
const HEADERS: &[HeaderCase] = &[
    HeaderCase { label: "left out: the session knows",   version: None,               status: 200 },
    HeaderCase { label: "what was agreed on",            version: Some("2025-06-18"), status: 200 },
    HeaderCase { label: "another one of the era",        version: Some("2025-11-25"), status: 200 },
    HeaderCase { label: "one that never was",            version: Some("1999-01-01"), status: 400 },
    HeaderCase { label: "one that is not yet",           version: Some("2099-01-01"), status: 400 },
    HeaderCase { label: "no date at all",                version: Some("latest"),     status: 400 },
    HeaderCase { label: "empty",                         version: Some(""),           status: 400 },
];

#[tokio::test]
async fn unsupported_version_header_is_a_400_in_a_session() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("negotiator", &["call:*"]).await.token);
    let (client, _) = client.initialize("2025-06-18").await;
    for case in HEADERS {
        let client = match case.version {
            Some(version) => client.header("mcp-protocol-version", version),
            None => client.clone(),
        };
        let answer = client.call("tools/list", json!({})).await;
        assert_eq!(answer.status, case.status, "POST, {}: {answer:?}", case.label);
        if case.status != 200 {
            assert_eq!(client.get().await.status, case.status, "GET, {}", case.label);
            assert_eq!(client.delete().await.status, case.status, "DELETE, {}", case.label);
        }
    }
}
