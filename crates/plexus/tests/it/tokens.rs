//! `plexus token`: show, renew, rotate and revoke, and the limit of failed authentications.

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};

async fn running() -> (Plexus, HubProcess) {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    (plexus, hub)
}

async fn create(plexus: &Plexus, more: &[&str]) -> Value {
    plexus.run(&[&["token", "create", "--json"], more].concat()).await.json(0)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// The status of a request with the token.
async fn status(plexus: &Plexus, hub: &HubProcess, token: &str) -> u16 {
    let request = plexus.http().get(hub.url("/api/v1/tools")).bearer_auth(token);
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn token_is_shown_by_name_by_id_and_to_itself() {
    let (plexus, hub) = running().await;
    let made = create(&plexus, &["--kind", "agent", "--name", "codex"]).await;
    let (token, jti) = (text(&made, "token"), text(&made, "jti"));
    let unused = plexus.run(&["token", "show", "codex", "--json"]).await.json(0);
    assert_eq!((&unused["jti"], &unused["state"]), (&json!(jti), &json!("active")), "{unused}");
    assert_eq!((&unused["last_used_at"], &unused["children"]), (&Value::Null, &json!(0)), "{unused}");
    assert!(unused["parent"].is_string() && unused["renew_until"].is_string(), "{unused}");
    assert!(!unused.to_string().contains(token), "the token itself is shown");

    let as_agent = [("PLEXUS_TOKEN", token)];
    let own = plexus.run_with(&["token", "show", "--json"], &as_agent).await.json(0);
    assert_eq!(own["jti"], jti, "{own}");
    let shown = plexus.run(&["token", "show", jti]).await;
    let used =
        shown.ok().lines().find_map(|line| line.strip_prefix("last used\t")).expect("when it was used");
    assert_ne!(used, "never", "{shown:?}");
    assert!(plexus.run(&["token", "list"]).await.ok().contains(used));
    // Tokens of other principals look like missing ones.
    let admin = text(&own, "parent");
    let foreign = plexus.run_with(&["token", "show", admin], &as_agent).await;
    assert!(foreign.failed(1).contains("no such token"), "{foreign:?}");
    assert!(plexus.run(&["token", "show", "nobody"]).await.failed(1).contains("no active token"));

    // The time of the last use survives a restart.
    assert!(hub.terminate().await.success());
    let _hub = plexus.up().await;
    let after = plexus.run(&["token", "show", jti, "--json"]).await.json(0);
    assert_eq!(after["last_used_at"], own["last_used_at"], "{after}");
}

#[tokio::test]
async fn ambiguous_token_name_is_refused() {
    let (plexus, hub) = running().await;
    let first = create(&plexus, &["--kind", "agent", "--name", "codex"]).await;
    let second = create(&plexus, &["--kind", "agent", "--name", "codex"]).await;
    let ambiguous = plexus.run(&["token", "revoke", "codex"]).await;
    let stderr = ambiguous.failed(1);
    assert!(stderr.contains(text(&first, "jti")) && stderr.contains(text(&second, "jti")), "{stderr}");
    plexus.run(&["token", "revoke", text(&first, "jti")]).await.ok();
    let revoked = plexus.run(&["token", "revoke", "codex", "--json"]).await.json(0);
    assert_eq!(revoked["jti"], second["jti"]);
    assert_eq!(status(&plexus, &hub, text(&second, "token")).await, 401);
}

#[tokio::test]
async fn renewals_are_revoked_with_their_token() {
    let (plexus, hub) = running().await;
    let made = create(&plexus, &["--kind", "agent", "--name", "codex", "--renew-for", "60d"]).await;
    let renew = async |token: &str| {
        let output = plexus.run_with(&["token", "renew"], &[("PLEXUS_TOKEN", token)]).await;
        output.ok().trim().to_owned()
    };
    let second = renew(text(&made, "token")).await;
    let third = renew(&second).await;
    for token in [text(&made, "token"), &second, &third] {
        assert_eq!(status(&plexus, &hub, token).await, 200);
    }
    // By name, a token and its renewals are one.
    let revoked = plexus.run(&["token", "revoke", "codex", "--json"]).await.json(0);
    assert_eq!(revoked["jti"], made["jti"]);
    for token in [text(&made, "token"), &second, &third] {
        assert_eq!(status(&plexus, &hub, token).await, 401);
    }
    for (args, expected) in
        [(["--kind", "user"], "cannot be renewed"), (["--kind", "session"], "cannot be renewed")]
    {
        let made = create(&plexus, &[&args[..], &["--name", "ann"]].concat()).await;
        let response = plexus.http().post(hub.url("/api/v1/tokens/renew")).bearer_auth(text(&made, "token"));
        let response = response.send().await.expect("an answer");
        assert_eq!(response.status(), 403);
        let refusal: Value = response.json().await.expect("JSON");
        assert!(text(&refusal, "message").contains(expected), "{refusal}");
        assert!(text(&refusal, "hint").contains("plexus token create"), "{refusal}");
    }
}

#[tokio::test]
async fn token_is_rotated_immediately_or_after_a_grace_period() {
    let (plexus, hub) = running().await;
    let old = create(&plexus, &["--kind", "agent", "--name", "codex", "--scope", "call:todo"]).await;
    let rotated = plexus.run(&["token", "rotate", "codex", "--grace", "1h"]).await;
    let new = rotated.ok().trim().to_owned();
    assert!(!rotated.stderr.contains(&new), "the token is on the other stream too");
    for token in [text(&old, "token"), &new] {
        assert_eq!(status(&plexus, &hub, token).await, 200);
    }
    let shown = plexus.run(&["token", "show", text(&old, "jti"), "--json"]).await.json(0);
    assert_eq!(shown["state"], "ending", "{shown}");
    // It ends with the grace period, before its expiry.
    let ends = text(&shown, "revoked_at");
    let printed = plexus.run(&["token", "show", text(&old, "jti")]).await;
    let ended = printed.ok().lines().find_map(|line| line.strip_prefix("ends\t")).expect("when it ends");
    assert_eq!(ended.get(..19), ends.replace('T', " ").get(..19), "{printed:?}");
    let list = plexus.run(&["token", "list"]).await;
    let row = list.ok().lines().find(|line| line.starts_with(text(&old, "jti"))).expect("its row");
    assert_eq!(row.split('\t').nth(6), Some(ended), "{row}");
    // The name refers to the new token.
    let named = plexus.run(&["token", "show", "codex", "--json"]).await.json(0);
    assert_eq!((&named["state"], named["jti"] == old["jti"]), (&json!("active"), false), "{named}");
    let twice = plexus.run(&["token", "rotate", text(&old, "jti")]).await;
    assert!(twice.failed(1).contains("already ended or been replaced"), "{twice:?}");
    // Revocation does not wait for the grace period.
    plexus.run(&["token", "revoke", text(&old, "jti")]).await.ok();
    assert_eq!(status(&plexus, &hub, text(&old, "token")).await, 401);

    let newest = plexus.run(&["token", "rotate", "codex", "--json"]).await.json(0);
    assert_eq!((&newest["scopes"], &newest["kind"]), (&json!(["call:todo"]), &json!("agent")), "{newest}");
    assert_eq!(status(&plexus, &hub, &new).await, 401);
    assert_eq!(status(&plexus, &hub, text(&newest, "token")).await, 200);
    // The admin token in the data folder can be rotated too; commands use the new one.
    let before = hub.admin_token();
    plexus.run(&["token", "rotate", "local"]).await.ok();
    assert_eq!(status(&plexus, &hub, &before).await, 401);
    plexus.run(&["status"]).await.ok();
}

#[tokio::test]
async fn failed_authentications_are_limited_and_valid_tokens_are_not() {
    let (plexus, hub) = running().await;
    let good = hub.token("codex").await.token;
    let attempt = async |number: usize| {
        // A forged address in a header must not matter.
        let from = format!("203.0.113.{number}");
        let client = hub.mcp(&format!("wrong-{number}")).header("x-forwarded-for", &from);
        client.modern("tools/list", json!({})).await
    };
    for number in 0..30 {
        let answer = attempt(number).await;
        assert_eq!((answer.status, &answer.json()["code"]), (401, &json!("unauthenticated")), "{number}");
    }
    let limited = attempt(30).await;
    assert_eq!((limited.status, &limited.json()["code"]), (429, &json!("overloaded")), "{limited:?}");
    let wait: u64 = limited.header("retry-after").expect("how long").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    let none = plexus.http().get(hub.url("/api/v1/tools")).send().await.expect("an answer");
    assert_eq!(none.status(), 429, "no token at all");
    assert_eq!(status(&plexus, &hub, "wrong-again").await, 429);

    assert_eq!(status(&plexus, &hub, &good).await, 200);
    assert_eq!(hub.mcp(&good).modern("tools/list", json!({})).await.status, 200);
    plexus.run(&["status"]).await.ok();
    let log = hub.log();
    let warnings: Vec<_> =
        log.lines().filter(|line| line.contains("too many failed authentications")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("127.0.0.1") && !log.contains("wrong-"), "{warnings:?}");
}

#[tokio::test]
async fn revocation_reports_derived_tokens_and_admin_token_needs_force() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let agent = hub.token("builder").await;
    let renewed = [("PLEXUS_TOKEN", agent.token.as_str())];
    plexus.run_with(&["token", "renew"], &renewed).await.ok();
    hub.token("other").await;

    let shown = plexus.run(&["token", "show", "--json"]).await.json(0);
    let admin = shown["jti"].as_str().expect("an id");
    let refused = plexus.run(&["token", "revoke", admin]).await;
    let stderr = refused.failed(1);
    for expected in ["admin token", "3 tokens created with it", "--force", "restarts"] {
        assert!(stderr.contains(expected), "no {expected:?} in {stderr}");
    }

    let ended = plexus.run(&["token", "revoke", "builder"]).await;
    assert!(ended.ok().ends_with("Also revoked 1 token created with it.\n"), "{ended:?}");
    // A token without rights on other tokens may revoke itself.
    let careless = hub.token("careless").await;
    let presented = [("PLEXUS_TOKEN", careless.token.as_str())];
    plexus.run_with(&["token", "renew"], &presented).await.ok();
    let itself = plexus.run_with(&["token", "revoke", &careless.jti.to_string()], &presented).await;
    assert!(itself.ok().contains("1 token created with it"), "{itself:?}");

    let forced = plexus.run(&["token", "revoke", admin, "--force"]).await;
    assert!(forced.ok().contains("1 token created with it"), "{forced:?}");
    assert!(forced.stderr.contains("Restart the hub"), "{forced:?}");
    plexus.run(&["status"]).await.failed(5);
    // The suggested restart works.
    assert!(hub.terminate().await.success());
    let _hub = plexus.up().await;
    plexus.run(&["status"]).await.ok();
}
