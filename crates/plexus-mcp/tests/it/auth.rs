//! Authentication: only a bearer token in the header, checked before anything else.

use plexus_testkit::{RawConnection, TestHub};
use serde_json::json;

const PATHS: [&str; 4] = ["/mcp", "/mcp/", "/mcp/v1", "/mcp/v1/"];

#[tokio::test]
async fn all_forms_of_the_url_are_one_endpoint() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("visitor", &["call:*"]).await.token);
    let mut lists = Vec::new();
    for path in PATHS {
        let client = client.at(hub.url(path));
        lists.push(client.modern("tools/list", json!({})).await.body);
        let (session, _) = client.initialize("2025-06-18").await;
        // A session is not bound to the form of the URL it was opened with.
        for other in PATHS {
            assert_eq!(
                session.at(hub.url(other)).call("ping", json!({})).await.status,
                200,
                "{path} {other}"
            );
        }
        assert_eq!(session.get_stream().await.status(), 200, "{path}");
        assert_eq!(session.delete().await.status, 204, "{path}");
    }
    assert!(lists.windows(2).all(|pair| pair[0] == pair[1]));
    let wrong_path = client.at(hub.url("/mcp/v2")).modern("tools/list", json!({})).await;
    assert_eq!(wrong_path.status, 404);
}

struct Credential {
    label: &'static str,
    /// `TOKEN` stands for a valid token. None: no header.
    authorization: Option<&'static str>,
    /// Appended to the URL; `TOKEN` as above.
    query: &'static str,
    status: u16,
    challenge: Option<&'static str>,
}

const PLAIN: Option<&str> = Some("Bearer");
const INVALID: Option<&str> = Some("Bearer error=\"invalid_token\"");

#[rustfmt::skip]
const CREDENTIALS: &[Credential] = &[
    Credential { label: "a bearer token",           authorization: Some("Bearer TOKEN"),         query: "",                    status: 200, challenge: None },
    Credential { label: "the scheme in lower case", authorization: Some("bearer TOKEN"),         query: "",                    status: 200, challenge: None },
    Credential { label: "beside one in the URL",    authorization: Some("Bearer TOKEN"),         query: "?token=nonsense",     status: 200, challenge: None },
    Credential { label: "none",                     authorization: None,                         query: "",                    status: 401, challenge: PLAIN },
    Credential { label: "?token=",                  authorization: None,                         query: "?token=TOKEN",        status: 401, challenge: PLAIN },
    Credential { label: "?access_token=",           authorization: None,                         query: "?access_token=TOKEN", status: 401, challenge: PLAIN },
    Credential { label: "?authorization=",          authorization: None,                         query: "?authorization=Bearer%20TOKEN", status: 401, challenge: PLAIN },
    Credential { label: "Basic",                    authorization: Some("Basic TOKEN"),          query: "",                    status: 401, challenge: PLAIN },
    Credential { label: "the token alone",          authorization: Some("TOKEN"),                query: "",                    status: 401, challenge: PLAIN },
    Credential { label: "the scheme alone",         authorization: Some("Bearer"),               query: "",                    status: 401, challenge: PLAIN },
    Credential { label: "an empty token",           authorization: Some("Bearer "),              query: "",                    status: 401, challenge: PLAIN },
    Credential { label: "nonsense",                 authorization: Some("Bearer nonsense"),      query: "",                    status: 401, challenge: INVALID },
    Credential { label: "nonsense, good in URL",    authorization: Some("Bearer nonsense"),      query: "?token=TOKEN",        status: 401, challenge: INVALID },
    Credential { label: "a token with a tail",      authorization: Some("Bearer TOKENx"),        query: "",                    status: 401, challenge: INVALID },
    Credential { label: "two tokens",               authorization: Some("Bearer TOKEN, Bearer TOKEN"), query: "",              status: 401, challenge: INVALID },
];

#[tokio::test]
async fn only_a_bearer_token_in_the_header_authenticates() {
    let hub = TestHub::start().await;
    let token = hub.token("visitor", &["call:*"]).await.token;
    for credential in CREDENTIALS {
        let url = hub.url(&format!("/mcp{}", credential.query.replace("TOKEN", &token)));
        let client = hub.mcp("unset").at(url);
        let client = match credential.authorization {
            Some(value) => client.header("authorization", &value.replace("TOKEN", &token)),
            None => client.without("authorization"),
        };
        let answer = client.modern("tools/list", json!({})).await;
        assert_eq!(answer.status, credential.status, "{}: {answer:?}", credential.label);
        assert_eq!(answer.header("www-authenticate"), credential.challenge, "{}", credential.label);
        if credential.status == 401 {
            // The same for every method, without the token in the answer.
            assert_eq!(answer.json()["code"], "unauthenticated", "{}", credential.label);
            assert!(!answer.body.contains(&token), "{}", credential.label);
            let mut initialize = client.clone();
            for method in ["mcp-method", "mcp-protocol-version"] {
                initialize = initialize.without(method);
            }
            let params = json!({ "protocolVersion": "2025-06-18" });
            assert_eq!(initialize.call("initialize", params).await.status, 401, "{}", credential.label);
            for answer in [client.get().await, client.delete().await] {
                assert_eq!(answer.status, 401, "{}", credential.label);
                assert_eq!(answer.header("www-authenticate"), credential.challenge, "{}", credential.label);
            }
        }
    }
}

#[tokio::test]
async fn two_authorization_headers_are_refused() {
    let hub = TestHub::start().await;
    let token = hub.token("visitor", &["call:*"]).await.token;
    let client = hub.mcp(&token).another_header("authorization", &format!("Bearer {token}"));
    assert_eq!(client.modern("tools/list", json!({})).await.status, 401);
}

#[tokio::test]
async fn revoked_token_is_refused_immediately() {
    let hub = TestHub::start().await;
    let token = hub.token("leaver", &["call:*"]).await;
    let client = hub.mcp(&token.token);
    let (session, _) = client.initialize("2025-06-18").await;
    assert_eq!(client.modern("tools/list", json!({})).await.status, 200);
    hub.revoke(token.jti).await;
    let answer = client.modern("tools/list", json!({})).await;
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, INVALID));
    assert_eq!(session.call("ping", json!({})).await.status, 401);
    assert_eq!(session.get().await.status, 401);
    assert_eq!(session.delete().await.status, 401);
}

/// A body is announced but never sent, so the test hangs if the hub waits for it.
#[tokio::test]
async fn body_is_not_read_before_authentication() {
    let hub = TestHub::start().await;
    for authorization in ["", "Authorization: Bearer nonsense\r\n"] {
        for body in ["Content-Length: 10000000000\r\n", "Transfer-Encoding: chunked\r\n"] {
            let mut connection = RawConnection::open(hub.address()).await;
            let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
            connection.send(format!("{head}{authorization}{body}\r\n")).await;
            let answer = connection.answer().await;
            assert_eq!(answer.status, 401, "{authorization:?} {body:?}");
            assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
        }
    }
}

#[tokio::test]
async fn unauthenticated_requests_get_the_same_answer() {
    let hub = TestHub::start().await;
    let stranger = hub.mcp("nonsense");
    let mut answers = Vec::new();
    for body in ["{", "[]", "", "{\"jsonrpc\":\"2.0\"}", &"[".repeat(1000)] {
        let answer =
            stranger.header("content-type", "text/plain").header("accept", "image/png").post(body).await;
        answers.push((answer.status, answer.json()["message"].clone()));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(answers[0].0, 401);
}

const WELL_KNOWN: [&str; 8] = [
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource/mcp/v1",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/mcp",
    "/mcp/.well-known/openid-configuration",
];

#[tokio::test]
async fn well_known_paths_are_404_without_authorization_servers() {
    let hub = TestHub::start().await;
    for path in WELL_KNOWN {
        let answer = hub.mcp("unset").without("authorization").at(hub.url(path)).get().await;
        assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/json")), "{path}");
        assert_eq!(answer.json()["code"], "not_found", "{path}");
        assert_eq!(answer.header("www-authenticate"), None, "{path}");
    }
}

#[tokio::test]
async fn metadata_and_challenge_name_the_authorization_servers() {
    let hub = TestHub::start_with(|config| {
        config.authorization_servers = vec!["https://login.example.net".to_owned()];
    })
    .await;
    let stranger = hub.mcp("unset").without("authorization");
    let resources = [
        ("/.well-known/oauth-protected-resource", "/mcp"),
        ("/.well-known/oauth-protected-resource/mcp", "/mcp"),
        ("/.well-known/oauth-protected-resource/mcp/", "/mcp"),
        ("/.well-known/oauth-protected-resource/mcp/v1", "/mcp/v1"),
    ];
    for (path, resource) in resources {
        let answer = stranger.at(hub.url(path)).get().await;
        assert_eq!(answer.status, 200, "{path}");
        let metadata = answer.json();
        assert_eq!(metadata["resource"], hub.url(resource), "{path}");
        assert_eq!(metadata["authorization_servers"], json!(["https://login.example.net"]), "{path}");
        assert_eq!(metadata["bearer_methods_supported"], json!(["header"]), "{path}");
    }
    // The hub is not an authorization server, and there are no other resources.
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/api"] {
        assert_eq!(stranger.at(hub.url(path)).get().await.status, 404, "{path}");
    }

    let url = hub.url("/.well-known/oauth-protected-resource/mcp");
    let none = stranger.modern("tools/list", json!({})).await;
    let expected = format!("Bearer resource_metadata=\"{url}\"");
    assert_eq!((none.status, none.header("www-authenticate")), (401, Some(expected.as_str())));
    let bad = hub.mcp("nonsense").modern("tools/list", json!({})).await;
    let expected = format!("Bearer error=\"invalid_token\", resource_metadata=\"{url}\"");
    assert_eq!((bad.status, bad.header("www-authenticate")), (401, Some(expected.as_str())));
}
