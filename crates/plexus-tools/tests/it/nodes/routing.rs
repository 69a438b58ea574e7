//! The selection of the node of a call, and the errors when none is selected.

use std::sync::Arc;

use plexus_auth::Principal;
use plexus_auth::profiles::LiveProfiles;
use plexus_proto::{ErrorCode, NodeId};
use plexus_tools::CallError;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{TestNodes, echo_shell, node, run, run_on};
use crate::hub::{Hub, bounded};
use crate::profiles::write;

const SCOPES: [&str; 3] = ["call:*", "node:local", "node:nas"];

async fn hub(nodes: impl IntoIterator<Item = plexus_tools::nodes::NodeEntry>) -> (Hub, Arc<TestNodes>) {
    let hub = Hub::with([echo_shell()]).await;
    let machines = TestNodes::of(nodes);
    hub.dispatcher.set_nodes(machines.clone());
    (hub, machines)
}

/// Where a call ran.
async fn node_reached(hub: &Hub, principal: &Arc<Principal>, arguments: Value) -> String {
    hub.ok(principal, "shell", arguments).await.text().into_owned()
}

#[tokio::test]
async fn call_runs_on_the_node_it_names() {
    bounded(async {
        let nas = node("nas", &[("role", "nas"), ("site", "home")]);
        let id = nas.id.to_string();
        let (hub, _) =
            hub([node("local", &[]), nas, node("vps", &[("role", "web"), ("site", "home")])]).await;
        let admin = hub.admin();
        for (selector, expected) in [
            ("nas", "nas"),
            ("NAS", "nas"),
            (id.as_str(), "nas"),
            ("role=nas", "nas"),
            ("role=web, site=home", "vps"),
            ("local", "local"),
        ] {
            assert_eq!(node_reached(&hub, &admin, run_on(selector)).await, expected, "{selector}");
        }
        assert_eq!(node_reached(&hub, &admin, run("x")).await, "local");
        let through = json!({ "name": "shell", "arguments": run_on("nas") });
        assert_eq!(hub.ok(&admin, "tool_call", through).await.text(), "nas");
    })
    .await;
}

#[tokio::test]
async fn routing_arguments_are_recorded_but_not_sent() {
    bounded(async {
        let (hub, _) = hub([node("nas", &[])]).await;
        let admin = hub.admin();
        let arguments =
            json!({ "action": "run", "command": "x", "node": "nas", "queue": true, "queue_seconds": 5 });
        let reply = hub.call(&admin, "shell", arguments).await;
        let output = reply.result.unwrap();
        assert_eq!(output.structured().unwrap()["arguments"], run("x"));
        let events = hub.events(reply.session_id.unwrap()).await;
        assert_eq!(events.len(), 2);
        for event in events {
            assert_eq!(
                (&event.payload["node"], &event.payload["args"]["node"]),
                (&json!("nas"), &json!("nas"))
            );
            assert!(event.payload["node_id"].is_string());
        }
    })
    .await;
}

#[tokio::test]
async fn the_audit_names_the_machine_whatever_it_was_chosen_by() {
    bounded(async {
        let (hub, _) = hub([node("local", &[]), node("nas", &[("role", "nas")])]).await;
        let admin = hub.admin();
        for (selector, machine) in [(run_on("role=nas"), "nas"), (run("x"), "local")] {
            let reply = hub.call(&admin, "shell", selector.clone()).await;
            let call = hub.audited(reply.call_id).await.expect("a record");
            assert_eq!(call.arguments["node"], machine, "{selector}: {call:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn call_without_node_uses_the_configured_node() {
    bounded(async {
        let nas = node("nas", &[("role", "nas")]);
        let (hub, _) = hub([node("local", &[]), nas, node("vps", &[])]).await;
        let scopes = ["call:*", "node:*"];
        let plain = hub.agent("plain", &scopes).await;
        assert_eq!(node_reached(&hub, &plain, run("x")).await, "local");
        let set_up = hub.agent_on("set-up", &scopes, None, Some("vps")).await;
        assert_eq!(node_reached(&hub, &set_up, run("x")).await, "vps");
        assert_eq!(node_reached(&hub, &set_up, run_on("nas")).await, "nas", "what a call says wins");
        let dir = tempfile::tempdir().unwrap();
        let nasty = json!({ "name": "Nasty", "description": "Of one machine.", "node_id": "role=nas" });
        write(dir.path(), "nasty", &nasty);
        write(dir.path(), "free", &json!({ "name": "Free", "description": "Of no machine." }));
        hub.follow_profiles(&LiveProfiles::open(dir.path().to_owned()));
        let of_profile = hub.agent_on("profiled", &scopes, Some("nasty"), Some("vps")).await;
        assert_eq!(node_reached(&hub, &of_profile, run("x")).await, "nas", "the profile wins over the token");
        let of_profile = hub.agent_on("free", &scopes, Some("free"), Some("vps")).await;
        assert_eq!(node_reached(&hub, &of_profile, run("x")).await, "vps");
    })
    .await;
}

#[tokio::test]
async fn ambiguous_name_lists_candidates() {
    bounded(async {
        let mut off = node("nas-2", &[("role", "nas")]);
        off.online = false;
        let hidden = node("nas-3", &[("role", "nas")]);
        let (hub, _) = hub([node("nas-1", &[("role", "nas")]), off, hidden]).await;
        let agent = hub.agent("a", &["call:*", "node:nas-1", "node:nas-2"]).await;
        let error = hub.err(&agent, "shell", run_on("role=nas")).await;
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert_eq!(
            error.message,
            "2 nodes match \"role=nas\": nas-1, nas-2 (offline since 2026-10-31T09:00:00Z)"
        );
        assert_eq!(error.details["candidates"].as_array().unwrap().len(), 2);
        for malformed in ["role=", "=nas", "role=nas,", "role=nas,site"] {
            let error = hub.err(&agent, "shell", run_on(malformed)).await;
            assert_eq!(error.code, ErrorCode::InvalidArguments, "{malformed}");
        }
    })
    .await;
}

#[tokio::test]
async fn unavailable_node_is_refused_with_its_reason() {
    bounded(async {
        let (hub, machines) = hub([node("nas", &[]), node("vps", &[])]).await;
        let admin = hub.admin();
        let refused = |error: CallError, message: &str| {
            assert_eq!((error.code, error.message.as_str()), (ErrorCode::Unavailable, message));
            assert!(error.hint.unwrap().starts_with("Nothing was run."));
        };
        machines.change("nas", |nas| nas.online = false);
        let error = hub.err(&admin, "shell", run_on("nas")).await;
        refused(error, "the node nas is offline since 2026-10-31T09:00:00Z");
        machines.change("nas", |nas| nas.since = None);
        refused(
            hub.err(&admin, "shell", run_on("nas")).await,
            "the node nas is offline and has never connected",
        );
        machines.change("vps", |vps| vps.draining = true);
        let error = hub.err(&admin, "shell", run_on("vps")).await;
        refused(error, "the node vps is draining and accepts no new calls");
        machines.change("vps", |vps| (vps.draining, vps.tools) = (false, Default::default()));
        let error = hub.err(&admin, "shell", run_on("vps")).await;
        assert_eq!(
            (error.code, error.message.as_str()),
            (ErrorCode::NotFound, "the node vps has no tool shell")
        );
        assert!(super::rows(&hub).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn principal_without_nodes_sees_no_node_tools() {
    bounded(async {
        let (hub, _) = hub([node("local", &[])]).await;
        let outside = hub.agent("outside", &["call:*"]).await;
        let error = hub.err(&outside, "shell", run("x")).await;
        let none = hub.err(&outside, "shelf", run("x")).await;
        assert_eq!(error.code, ErrorCode::UnknownTool);
        assert_eq!(error.text().replace("shell", "shelf"), none.text());
        let restricted_agent = hub.agent("elsewhere", &["call:*", "node:nas"]).await;
        let error = hub.err(&restricted_agent, "shell", run("x")).await;
        assert_eq!(
            error.message,
            "there is no node \"local\" that you may use, and the call does not name another"
        );
        let scoped = hub.agent("scoped", &["call:shell.list", "node:*"]).await;
        assert_eq!(hub.err(&scoped, "shell", run("x")).await.code, ErrorCode::InvalidArguments);
        hub.ok(&scoped, "shell", json!({ "action": "list" })).await;
    })
    .await;
}

/// What a caller could learn from an answer, with the name that it asked for taken out.
fn normalized_error(error: &CallError, selector: &str) -> String {
    format!("{error:?}").replace(selector, "ASKED").to_lowercase().replace(&selector.to_lowercase(), "ASKED")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A caller that may not use a node gets the error of a missing node, whatever the state of the node.
    #[test]
    fn a_machine_that_the_caller_may_not_use_is_as_one_that_is_not_there(
        name in "[a-z][a-z0-9_-]{0,12}",
        (online, draining, seen, tool) in any::<(bool, bool, bool, bool)>(),
        queue in any::<bool>(),
    ) {
        prop_assume!(!["local", "nas"].contains(&name.as_str()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(bounded(async {
            let mut secret = node(&name, &[("role", "secret"), ("only", &name)]);
            (secret.online, secret.draining) = (online, draining);
            if !seen {
                secret.since = None;
            }
            if !tool {
                secret.tools.clear();
            }
            let id = secret.id.to_string();
            let other_nodes = [node("local", &[]), node("nas", &[("role", "nas")])];
            let (with, machines) = hub(other_nodes.clone().into_iter().chain([secret])).await;
            let agent = with.agent("a", &SCOPES).await;
            let label = format!("only={name}");
            let selector = [name.as_str(), &id, "role=secret", &label, "role=secret,only=x"];
            let mut answers = Vec::new();
            for present in [true, false] {
                if !present {
                    machines.all.lock().unwrap().truncate(2);
                }
                let mut errors = Vec::new();
                for selector in selector {
                    let arguments = json!({ "action": "run", "node": selector, "queue": queue });
                    errors.push(with.err(&agent, "shell", arguments).await);
                }
                answers.push(errors);
            }
            assert_eq!(answers[0], answers[1]);
            let other = NodeId::new().to_string();
            let error = with.err(&agent, "shell", run_on(&other)).await;
            assert_eq!(normalized_error(&answers[0][1], &id), normalized_error(&error, &other));
        }));
    }
}
