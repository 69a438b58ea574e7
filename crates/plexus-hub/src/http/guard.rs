//! Checks that apply to every route before anything else.
//!
//! They block web pages that trick a browser into calling the hub, which the browser reveals in `Host` or `Origin`.
//! They also block requests that two parsers may understand differently: a target that names another host, and an
//! encoded body.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_ENCODING, HOST, ORIGIN, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use plexus_proto::ErrorCode;

use super::ApiError;
use crate::App;

pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    match check(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check(app: &App, request: &Request) -> Result<(), ApiError> {
    let refused = |what: &str, fix: &str| {
        ApiError::new(
            StatusCode::FORBIDDEN,
            ErrorCode::Forbidden,
            format!("this {what} is not allowed to use the hub"),
        )
        .hint(format!("To allow it, add it to `{fix}` in the hub's configuration."))
    };
    let config = app.config.load();
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    // DNS rebinding uses a name that resolves to this machine only by DNS; an address cannot be rebound.
    let host_ok = host.is_some_and(|host| {
        let name = host_name(host);
        is_address(name)
            || is_localhost(name)
            || listed(&config.allowed_hosts, &[host, name])
            || config.public_url.as_deref().is_some_and(|url| authority(url).eq_ignore_ascii_case(host))
    });
    // An absolute target, as sent to a proxy, overrides the header, so it must name the same host.
    let uri = request.uri();
    let target_ok = uri.authority().is_none_or(|target| {
        let web = matches!(uri.scheme_str(), Some("http" | "https"));
        web && host.is_some_and(|host| host.eq_ignore_ascii_case(target.as_str()))
    });
    if !host_ok || !target_ok || hosts.next().is_some() {
        return Err(refused("Host", "allowed_hosts"));
    }
    check_coding(request.headers())?;
    let mut origins = request.headers().get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let origin_ok = listed(&config.allowed_origins, &[origin])
        || origin.parse::<Uri>().ok().is_some_and(|uri| {
            let authority = uri.authority().map_or("", http::uri::Authority::as_str);
            let name = host_name(authority);
            let web = matches!(uri.scheme_str(), Some("http" | "https"));
            web && (is_loopback(name) || is_localhost(name) || Some(authority) == host)
        });
    if origin_ok && origins.next().is_none() { Ok(()) } else { Err(refused("Origin", "allowed_origins")) }
}

/// Refuses encoded bodies: the hub would not decode them, and an intermediary that does would have inspected
/// something else.
fn check_coding(headers: &HeaderMap) -> Result<(), ApiError> {
    let only = |name, coding: &str| {
        let mut values = headers.get_all(name).iter();
        let named = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(coding.as_bytes());
        values.next().is_none_or(named) && values.next().is_none()
    };
    if !only(CONTENT_ENCODING, "identity") {
        let message = "the body must be sent without a Content-Encoding";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(ApiError::new(status, ErrorCode::InvalidRequest, message));
    }
    if !only(TRANSFER_ENCODING, "chunked") {
        return Err(ApiError::bad_request("the only supported Transfer-Encoding is chunked"));
    }
    Ok(())
}

/// `host:port` without the port, or `[::1]:port` without the brackets; empty if malformed.
fn host_name(host: &str) -> &str {
    let is_port = |rest: &str| {
        rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
    };
    let (name, rest) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    if is_port(rest) && !name.contains('@') { name } else { "" }
}

/// The `host:port` part of `https://host:port/path`.
fn authority(url: &str) -> &str {
    let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

fn is_loopback(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_localhost(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
}

fn listed(list: &[String], candidates: &[&str]) -> bool {
    list.iter().any(|entry| candidates.iter().any(|candidate| entry.eq_ignore_ascii_case(candidate)))
}
