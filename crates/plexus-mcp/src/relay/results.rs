//! Results as the hub would send them, for when it is unreachable.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::modern::TTL_MS;
use crate::server::modern::meta::{META_SERVER, META_SUBSCRIPTION};
use crate::server::rpc::result_json;
use crate::server::{capabilities, server_info};
use crate::version::{Dialect, SUPPORTED, Version};

/// The answer to `initialize`, and the negotiated revision.
#[must_use]
pub fn initialize_result(id: &RawValue, requested: &str, instructions: &str) -> (Version, String) {
    let version = Version::parse(requested).unwrap_or(Version::LATEST);
    let result = format!(
        "{{\"protocolVersion\":\"{version}\",\"capabilities\":{},\"serverInfo\":{},\"instructions\":{}}}",
        capabilities(Dialect::Session(version)),
        server_info(),
        json!(instructions),
    );
    (version, result_json(id, &result))
}

/// The answer to `server/discover`.
#[must_use]
pub fn discover_result(id: &RawValue, instructions: &str) -> String {
    let members = format!(
        "\"supportedVersions\":{},\"capabilities\":{},\"instructions\":{}",
        json!(SUPPORTED),
        capabilities(Dialect::Modern),
        json!(instructions),
    );
    complete(id, &cacheable(&members))
}

/// The answer to `tools/list`, on one page.
#[must_use]
pub fn tool_list_result(id: &RawValue, tools: &str, dialect: Dialect) -> String {
    let members = format!("\"tools\":[{tools}]");
    match dialect {
        Dialect::Session(_) => result_json(id, &format!("{{{members}}}")),
        Dialect::Modern => complete(id, &cacheable(&members)),
    }
}

/// The answer to a call: text, and structured data if the revision has it.
#[must_use]
pub fn call_result(id: &RawValue, text: &str, data: &Value, dialect: Dialect) -> String {
    let mut members = format!("\"content\":[{{\"type\":\"text\",\"text\":{}}}]", json!(text));
    if dialect.features().structured {
        members.push_str(&format!(",\"structuredContent\":{data}"));
    }
    members.push_str(",\"isError\":false");
    match dialect {
        Dialect::Session(_) => result_json(id, &format!("{{{members}}}")),
        Dialect::Modern => complete(id, &members),
    }
}

/// A notification on the stream that `subscriptions/listen` with this id opened.
#[must_use]
pub fn subscription_notification(id: &RawValue, method: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":{},\"params\":{{\"_meta\":{{\"{META_SUBSCRIPTION}\":{}}}}}}}",
        json!(method),
        id.get()
    )
}

/// The first message of that stream: the notifications it will carry.
#[must_use]
pub fn subscription_acknowledged(id: &RawValue, notifications: &Value) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"notifications\":\
         {notifications},\"_meta\":{{\"{META_SUBSCRIPTION}\":{}}}}}}}",
        id.get()
    )
}

fn cacheable(members: &str) -> String {
    format!("{members},\"ttlMs\":{TTL_MS},\"cacheScope\":\"private\"")
}

fn complete(id: &RawValue, members: &str) -> String {
    let result = format!(
        "{{\"resultType\":\"complete\",{members},\"_meta\":{{\"{META_SERVER}\":{}}}}}",
        server_info()
    );
    result_json(id, &result)
}
