//! `resources/read`, `prompts/get` and `completion/complete`: the part that all revisions share.

mod read_error;

use std::collections::BTreeMap;

use http::StatusCode;
use plexus_auth::Principal;
use plexus_tools::{Facility, RawJson};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::call::{Target, TargetKind};
use super::rpc::{self, Params, RESOURCE_NOT_FOUND, RpcError};
use super::{State, offers};
use crate::offers::{VisibleOffers, server_uri};
use crate::version::Dialect;

pub(super) use read_error::read_error;

/// Longest `ttlMs` of another server that is passed on.
const MAX_TTL_MS: u64 = 30_000;
/// Most concurrent completions of a subject; a person does not type faster.
pub(super) const MAX_COMPLETIONS: usize = 4;
/// Most values of a completion, as defined by the protocol.
const MAX_VALUES: usize = 100;
/// Longest URI in a request, in bytes. Servers list shorter ones only.
pub(super) const MAX_URI: usize = 8 << 10;
/// Longest URI or name in an error message, in characters.
const MAX_SHOWN: usize = 200;

/// The target of `resources/read` or `prompts/get`.
pub(super) fn target(
    state: &State,
    principal: &Principal,
    method: &str,
    params: &Params<'_>,
) -> Result<Target, RpcError> {
    let visible = offers::visible(state, principal);
    match method {
        "resources/read" => resource(&visible, params),
        _ => prompt(&visible, params),
    }
}

fn resource(visible: &VisibleOffers, params: &Params<'_>) -> Result<Target, RpcError> {
    let uri = uri(params)?;
    let owned = visible.owner(&uri).map_err(|unknown| not_found(&uri, &unknown.candidates))?;
    Ok(Target {
        name: Facility::Resources.name(&owned.server),
        arguments: json!({ "uri": owned.uri }),
        kind: TargetKind::Resource { uri },
    })
}

fn prompt(visible: &VisibleOffers, params: &Params<'_>) -> Result<Target, RpcError> {
    let name = rpc::text(params.name)
        .ok_or_else(|| RpcError::invalid_params("params.name must be the name of a prompt"))?;
    let owner = visible.prompt(&name).ok_or_else(|| unknown_prompt(&name))?;
    let mut arguments = Map::from_iter([("name".to_owned(), Value::from(owner.prompt))]);
    if let Some(given) = params.arguments.filter(|given| given.get() != "null") {
        let given: Map<String, Value> = serde_json::from_str(given.get())
            .map_err(|_| RpcError::invalid_params("params.arguments must be an object"))?;
        arguments.insert("arguments".to_owned(), Value::Object(given));
    }
    Ok(Target {
        kind: TargetKind::Prompt,
        name: Facility::Prompts.name(&owner.server),
        arguments: Value::Object(arguments),
    })
}

/// The URI in a request.
pub(super) fn uri(params: &Params<'_>) -> Result<String, RpcError> {
    let uri = rpc::text(params.uri).filter(|uri| uri.len() <= MAX_URI);
    uri.ok_or_else(|| {
        RpcError::invalid_params(format!(
            "params.uri must be the URI of a resource, of at most {MAX_URI} bytes"
        ))
    })
}

/// The error for a resource that does not exist or is ambiguous, with the code of the session era. The stateless
/// revision has no specific code for it.
pub(super) fn not_found(uri: &str, candidates: &[String]) -> RpcError {
    let shown: String = uri.chars().take(MAX_SHOWN).collect();
    let message = match candidates {
        [] => format!("Resource not found: {shown}"),
        candidates => {
            format!("Resource not found: the server of {shown} is ambiguous. Use {}", candidates.join(" or "))
        }
    };
    RpcError::new(StatusCode::OK, RESOURCE_NOT_FOUND, message).with_data(json!({ "uri": uri }))
}

fn unknown_prompt(name: &str) -> RpcError {
    let shown: String = name.chars().take(MAX_SHOWN).collect();
    RpcError::invalid_params(format!("Unknown prompt: {shown}"))
}

/// Members of a result that another server cannot set.
const RESERVED_MEMBERS: [&str; 5] = ["resultType", "ttlMs", "cacheScope", "nextCursor", "_meta"];

/// The members of another server's result, without the enclosing braces.
pub(super) fn members(result: &RawJson, kind: &TargetKind, dialect: Dialect) -> Result<String, RpcError> {
    let unusable =
        |_| RpcError::new(StatusCode::OK, rpc::INTERNAL_ERROR, "the server's answer cannot be parsed");
    let given: BTreeMap<String, &RawValue> = result.parsed().map_err(unusable)?;
    let mut json = String::with_capacity(result.len() + 64);
    for (name, value) in given.iter().filter(|(name, _)| !RESERVED_MEMBERS.contains(&name.as_str())) {
        if !json.is_empty() {
            json.push(',');
        }
        json.push_str(&Value::from(name.as_str()).to_string());
        json.push(':');
        match kind {
            TargetKind::Resource { uri } if name == "contents" => json.push_str(&contents(value, uri)),
            _ => json.push_str(value.get()),
        }
    }
    if let (TargetKind::Resource { .. }, Dialect::Modern) = (kind, dialect) {
        let ttl = given.get("ttlMs").and_then(|ttl| serde_json::from_str::<u64>(ttl.get()).ok());
        let ttl = ttl.unwrap_or(0).min(MAX_TTL_MS);
        // Its server cannot decide that other callers may see it.
        json.push_str(&format!(",\"ttlMs\":{ttl},\"cacheScope\":\"private\""));
    }
    Ok(json)
}

/// The contents of a resource under the URI in the client's request.
fn contents(contents: &RawValue, requested: &str) -> String {
    let unchanged = || contents.get().to_owned();
    let Some(owner) = server_uri(requested) else { return unchanged() };
    let Ok(mut parts) = serde_json::from_str::<Vec<Value>>(contents.get()) else { return unchanged() };
    for part in parts.iter_mut().filter(|part| part["uri"] == owner) {
        part["uri"] = Value::from(requested);
    }
    Value::from(parts).to_string()
}

/// The `_meta` of another server's result, if it is an object.
pub(super) fn meta(result: &RawJson) -> Option<RawJson> {
    let given: BTreeMap<String, &RawValue> = result.parsed().ok()?;
    given.get("_meta").filter(|meta| meta.get().starts_with('{')).map(|meta| RawJson::of(meta))
}

/// The members of the result of `completion/complete`. It is not a call, so what a person types is not recorded.
pub(super) async fn complete(
    state: &State,
    principal: &Principal,
    params: &Params<'_>,
    dialect: Dialect,
) -> Result<String, RpcError> {
    let (server, request) = completion(&offers::visible(state, principal), params, dialect)?;
    let Some(_slot) = state.completing.enter(principal.subject()) else {
        let message = format!("{MAX_COMPLETIONS} completions are already running, which is the limit");
        return Err(RpcError::new(StatusCode::OK, rpc::INTERNAL_ERROR, message));
    };
    let completion_result = match server {
        Some(server) => state.upstreams.complete(&server, request).await.map_err(|error| {
            let code = if error.is_about_params { rpc::INVALID_PARAMS } else { rpc::INTERNAL_ERROR };
            RpcError::new(StatusCode::OK, code, error.message)
        })?,
        None => None,
    };
    Ok(format!("\"completion\":{}", completion_json(completion_result.as_ref().map(|text| &text[..]))))
}

/// The server, if it supports completion, and the parameters of the request to it.
fn completion(
    visible: &VisibleOffers,
    params: &Params<'_>,
    dialect: Dialect,
) -> Result<(Option<String>, Map<String, Value>), RpcError> {
    let object = |raw: Option<&RawValue>| -> Option<Map<String, Value>> {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
    };
    let mut reference = object(params.reference).ok_or_else(|| {
        RpcError::invalid_params("params.ref must be an object that names a prompt or a resource")
    })?;
    let argument = object(params.argument)
        .filter(|argument| argument.get("name").is_some_and(Value::is_string))
        .filter(|argument| argument.get("value").is_some_and(Value::is_string))
        .ok_or_else(|| {
            RpcError::invalid_params("params.argument must have a name and a value, both strings")
        })?;
    let text = |member: &str| reference.get(member).and_then(Value::as_str).unwrap_or_default();
    let (server, member, owner) = match text("type") {
        "ref/prompt" => {
            let name = text("name");
            let owner = visible.prompt(name).ok_or_else(|| unknown_prompt(name))?;
            (owner.server, "name", owner.prompt)
        }
        "ref/resource" => {
            let uri = text("uri");
            let owned = visible.owner(uri).map_err(|unknown| RpcError {
                code: rpc::INVALID_PARAMS,
                ..not_found(uri, &unknown.candidates)
            })?;
            (owned.server, "uri", owned.uri)
        }
        _ => return Err(RpcError::invalid_params("params.ref.type must be ref/prompt or ref/resource")),
    };
    reference.insert(member.to_owned(), Value::from(owner));
    let mut request = Map::from_iter([
        ("ref".to_owned(), Value::Object(reference)),
        ("argument".to_owned(), Value::Object(argument)),
    ]);
    if let Some(context) = object(params.context).filter(|_| dialect.features().structured) {
        request.insert("context".to_owned(), Value::Object(context));
    }
    Ok((visible.completes(&server).then_some(server), request))
}

/// A server's completion, limited to what clients accept.
fn completion_json(result: Option<&[u8]>) -> Value {
    let result: Option<Value> = result.and_then(|text| serde_json::from_slice(text).ok());
    let completion_result = result.as_ref().and_then(|result| result.get("completion")?.as_object());
    let member = |name: &str| completion_result.and_then(|completion_result| completion_result.get(name));
    let values = member("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let all: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    let mut completion = json!({ "values": &all[..all.len().min(MAX_VALUES)] });
    if let Some(total) = member("total").and_then(Value::as_u64) {
        completion["total"] = json!(total);
    }
    let more = all.len() > MAX_VALUES || member("hasMore") == Some(&Value::Bool(true));
    if more || member("hasMore").is_some() {
        completion["hasMore"] = json!(more);
    }
    completion
}

#[cfg(test)]
mod tests;
