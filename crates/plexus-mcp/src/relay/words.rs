//! What the hub would say, where it cannot be asked.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::modern::TTL_MS;
use crate::server::modern::meta::{META_SERVER, META_SUBSCRIPTION};
use crate::server::rpc::result_json;
use crate::server::{capabilities, server_info};
use crate::version::{Dialect, SUPPORTED, Version};

/// The answer to `initialize`, and the revision that it agrees to.
#[must_use]
pub fn initialized(id: &RawValue, asked: &str, instructions: &str) -> (Version, String) {
    let version = Version::parse(asked).unwrap_or(Version::LATEST);
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
pub fn discovered(id: &RawValue, instructions: &str) -> String {
    let members = format!(
        "\"supportedVersions\":{},\"capabilities\":{},\"instructions\":{}",
        json!(SUPPORTED),
        capabilities(Dialect::Modern),
        json!(instructions),
    );
    complete(id, &cacheable(&members))
}

/// The answer to `tools/list`: all of them, on one page.
#[must_use]
pub fn listed(id: &RawValue, tools: &str, dialect: Dialect) -> String {
    let members = format!("\"tools\":[{tools}]");
    match dialect {
        Dialect::Session(_) => result_json(id, &format!("{{{members}}}")),
        Dialect::Modern => complete(id, &cacheable(&members)),
    }
}

/// The answer to a call: text for everybody, data for those whose revision has it.
#[must_use]
pub fn called(id: &RawValue, text: &str, data: &Value, dialect: Dialect) -> String {
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

/// A notification of the stream that `subscriptions/listen` with this id has opened.
#[must_use]
pub fn subscribed(id: &RawValue, method: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":{},\"params\":{{\"_meta\":{{\"{META_SUBSCRIPTION}\":{}}}}}}}",
        json!(method),
        id.get()
    )
}

/// The first message of that stream: what will be told.
#[must_use]
pub fn acknowledged(id: &RawValue, notifications: &Value) -> String {
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
