//! Rules of every route: the error envelope, validated cursors, methods, entity tags.

use plexus_testkit::TestHub;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, send};

#[tokio::test]
async fn foreign_cursor_is_refused() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    let page = admin.get("/tools?limit=1").await.ok();
    let of_tools = page["next"].as_str().unwrap();
    for list in ["/sessions", "/tokens", "/audit"] {
        for cursor in ["nonsense", "", "%00", of_tools] {
            let answer = admin.get(&format!("{list}?cursor={cursor}")).await;
            assert_eq!(answer.refused(400), "invalid_request", "{list} {cursor}");
        }
    }
    assert_eq!(admin.get("/tools?cursor=nonsense").await.refused(400), "invalid_request");
    for limit in ["0", "201", "-1", "x", ""] {
        assert_eq!(admin.get(&format!("/tools?limit={limit}")).await.refused(400), "invalid_request");
    }
}

#[tokio::test]
async fn last_page_has_no_next_cursor() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    let all = admin.get("/tools").await.ok()["items"].clone();
    let count = all.as_array().unwrap().len();
    // A limit equal to the number of items leaves no next page.
    assert_eq!(admin.get(&format!("/tools?limit={count}")).await.ok()["next"], Value::Null);
    let (mut collected, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = admin.get(&format!("/tools?limit=1{cursor}")).await.ok();
        assert_eq!(page["items"].as_array().unwrap().len(), 1);
        collected.push(page["items"][0].clone());
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(json!(collected), all);
}

#[tokio::test]
async fn unchanged_tools_return_not_modified() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    for path in ["/tools", "/tools/todo"] {
        let tag = admin.get(path).await.header("etag").to_owned();
        let again = send(admin.request(Method::GET, path).header("if-none-match", tag)).await;
        assert_eq!((again.status.as_u16(), again.body), (304, Value::Null), "{path}");
    }
    // A token with other permissions has another list.
    let few = Client::agent(&hub, "few", &["call:todo"]).await;
    assert_ne!(few.get("/tools").await.header("etag"), admin.get("/tools").await.header("etag"));
}

#[tokio::test]
async fn body_requires_the_json_content_type() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    let post = || admin.request(Method::POST, "/sessions").body(r#"{"name":"x"}"#);
    assert_eq!(send(post()).await.refused(415), "invalid_request");
    assert_eq!(send(post().header("content-type", "text/plain")).await.refused(415), "invalid_request");
    let json = send(post().header("content-type", "Application/JSON; charset=utf-8")).await;
    assert_eq!(json.status, 201);
    // The body must be an object, not an array of its fields.
    assert_eq!(admin.post("/sessions", &json!(["x", null])).await.refused(400), "invalid_request");
}

#[tokio::test]
async fn unknown_methods_and_paths_return_the_error_envelope() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    let put = send(admin.request(Method::PUT, "/sessions")).await;
    assert_eq!(put.refused(405), "invalid_request");
    assert_eq!(put.header("allow"), "GET,HEAD,POST");
    let options = send(admin.request(Method::OPTIONS, "/sessions")).await;
    assert_eq!((options.status.as_u16(), options.header("allow")), (204, "GET,HEAD,POST"));
    let head = send(admin.request(Method::HEAD, "/status")).await;
    assert_eq!((head.status.as_u16(), head.body), (200, Value::Null));
    for path in ["", "/", "/nothing", "/sessions/", "/tools/todo/call/now"] {
        assert_eq!(admin.get(path).await.refused(404), "not_found", "{path}");
    }
    assert_eq!(admin.get("/tools/a%00b").await.refused(400), "invalid_request");
}

#[tokio::test]
async fn configuration_is_shown_without_secrets() {
    let hub = TestHub::start().await;
    let page = Client::admin(&hub).get("/config").await.ok();
    let setting = |key: &str| {
        let items = page["items"].as_array().unwrap();
        items.iter().find(|item| item["key"] == key).unwrap_or_else(|| panic!("no {key}"))
    };
    let listen = setting("listen");
    assert_eq!(
        (&listen["value"], &listen["origin"]),
        (&json!("127.0.0.1:0"), &json!("--listen")),
        "{listen}"
    );
    let depth = setting("limits.json_depth");
    assert_eq!(
        (&depth["value"], &depth["origin"], &depth["reloadable"]),
        (&json!(64), &json!("default"), &json!(true))
    );
    let agent = Client::agent(&hub, "curious", &["call:*"]).await;
    assert_eq!(agent.get("/config").await.refused(403), "forbidden");
}
