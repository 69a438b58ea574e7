//! The addresses that the hub connects to, and those it refuses.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::scripted::{ScriptedServer, answer, json_answer, result, session_era, stateless_era, text_result};
use super::{ConnectParams, call, echo, text};

#[tokio::test]
async fn private_addresses_need_permission() {
    for url in [
        "http://10.0.0.1/mcp",
        "http://192.168.1.1/mcp",
        "http://169.254.169.254/latest",
        "http://[fd00::1]/mcp",
        "http://[::ffff:10.0.0.1]/mcp",
        "http://0.0.0.0:1/mcp",
        "http://0x0a000001/mcp",
    ] {
        let why = ConnectParams::to(url).with_timeout(Duration::from_secs(60)).connect_error().await;
        assert!(why.contains("is not contacted"), "{url}: {why}");
    }
    let why = ConnectParams::to("http://10.0.0.1/mcp").connect_error().await;
    assert!(why.contains("allow_private"), "{why}");
}

#[tokio::test]
async fn allowed_private_addresses_are_tried() {
    let mut params = ConnectParams::to("http://127.0.0.1:1/mcp");
    params.settings.allow_private = true;
    let why = params.connect_error().await;
    assert!(why.contains("cannot connect to"), "{why}");
}

#[tokio::test]
async fn errors_show_only_the_origin_of_a_url() {
    for url in ["http://127.0.0.1:1/key-in-path?key=in-query", "https://127.0.0.1:1/key-in-path"] {
        let why = ConnectParams::to(url).connect_error().await;
        assert!(why.contains("127.0.0.1:1") && !why.contains("key"), "{why}");
    }
    let why = ConnectParams::to("http://user:key@127.0.0.1:1/").connect_error().await;
    assert!(why.contains("Authorization") && !why.contains("key"), "{why}");
}

#[tokio::test]
async fn server_without_tls_is_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plain = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    };
    let params = ConnectParams::to(&format!("https://{address}/mcp"));
    let why = tokio::select! {
        why = params.connect_error() => why,
        () = plain => unreachable!("it waits for ever"),
    };
    assert!(why.contains("no secure connection"), "{why}");
}

#[tokio::test]
async fn untrusted_certificate_is_refused() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = async {
        let (stream, _) = listener.accept().await.unwrap();
        acceptor.accept(stream).await.map(drop)
    };
    let params = ConnectParams::to(&format!("https://localhost:{port}/mcp"))
        .header("Authorization", "Bearer of-the-file");
    let (why, accepted) = tokio::join!(params.connect_error(), accepted);
    assert!(why.contains("no secure connection") && why.contains("certificate"), "{why}");
    assert!(accepted.is_err(), "nothing was sent to whoever that is");
}

#[tokio::test]
async fn reserved_headers_are_refused() {
    let server = ScriptedServer::start(session_era).await;
    for name in ["Host", "accept", "Mcp-Session-Id", "content-length", "Mcp-Param-Region"] {
        let why = ConnectParams::to(&server.url()).header(name, "x").connect_error().await;
        assert!(why.contains(name), "{why}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn session_stays_at_the_redirect_target() {
    let target = ScriptedServer::start(session_era).await;
    let address = target.address();
    let here = ScriptedServer::start(move |request| match request.method.as_str() {
        "POST" => answer(307, &format!("location: http://{address}/moved\r\n"), ""),
        _ => session_era(request),
    })
    .await;
    let params = ConnectParams::to(&here.url()).header("Authorization", "Bearer of-the-file");
    let client = params.connect().await;
    let redirected = here.requests().len();
    assert_eq!(text(&call(&client, "echo", json!({})).await.unwrap()), "scripted");
    assert_eq!(here.requests().len(), redirected, "the session lives where it was begun");
    for request in here.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer of-the-file"), "{request:?}");
    }
    for request in target.requests() {
        assert_eq!(request.path, "/moved");
        assert_eq!(request.header("authorization"), None, "credentials stay with their server: {request:?}");
    }
}

#[tokio::test]
async fn same_origin_redirect_keeps_headers() {
    let server = ScriptedServer::start(|request| match request.path.as_str() {
        "/mcp" => answer(308, "location: /mcp/\r\n", ""),
        _ => stateless_era(request),
    })
    .await;
    let client =
        ConnectParams::to(&server.url()).header("Authorization", "Bearer of-the-file").connect().await;
    echo(&client, "x").await.unwrap();
    let last = server.requests().pop().unwrap();
    assert_eq!((last.path.as_str(), last.header("authorization")), ("/mcp/", Some("Bearer of-the-file")));
}

#[tokio::test]
async fn unsafe_redirects_are_not_followed() {
    for (status, location, expected) in [
        (307, "http://10.0.0.1/mcp", "allow_private"),
        (308, "http://169.254.169.254/latest/meta-data", "metadata"),
        (307, "file:///etc/passwd", "not supported"),
        (302, "/elsewhere", "turn the request into a GET"),
        (301, "https://mcp.example/", "https://mcp.example"),
        (307, "/mcp", "more than 3 times"),
    ] {
        let server =
            ScriptedServer::start(move |_| answer(status, &format!("location: {location}\r\n"), "")).await;
        let why = ConnectParams::to(&server.url()).connect_error().await;
        assert!(why.contains(expected), "{location}: {why}");
    }
}

#[tokio::test]
async fn redirected_call_runs_once() {
    let server = ScriptedServer::start(|request| match (request.message_method(), request.path.as_str()) {
        ("tools/call", "/mcp") => answer(307, "location: /other\r\n", ""),
        ("tools/call", _) => json_answer(200, "", &result(request, &text_result("elsewhere"))),
        _ => session_era(request),
    })
    .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    assert_eq!(text(&echo(&client, "x").await.unwrap()), "elsewhere");
    assert_eq!(server.count("tools/call"), 2);
}
