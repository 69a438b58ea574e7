use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const REMEDY: &str = "ask the owner";

/// Answers each connection with the next prepared answer and records the requests. An answer that ends with `…` stays
/// incomplete.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    _task: tokio::task::JoinSet<()>,
}

impl Server {
    async fn answering(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (noted, answers): (_, Vec<String>) =
            (requests.clone(), answers.iter().map(|&a| a.to_owned()).collect());
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move {
            let mut open = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                noted.lock().unwrap().push(String::from_utf8(head).unwrap());
                let answer = answer.replace("PORT", &port.to_string());
                let _ = stream.write_all(answer.trim_end_matches('…').as_bytes()).await;
                if answer.ends_with('…') {
                    open.push(stream);
                }
            }
            std::future::pending::<()>().await;
        });
        Self { port, requests, _task: task }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/secret-path?key=secret", self.port)
    }
}

fn fetcher(timeout: Duration) -> Fetcher {
    Fetcher::new(timeout, 1000, REMEDY)
}

async fn get(url: &str, private: bool) -> Result<Bytes, FetchError> {
    fetcher(Duration::from_secs(20)).get(url, private, "image/*").await
}

#[tokio::test]
async fn request_does_not_identify_the_caller() {
    let server = Server::answering(&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"]).await;
    assert_eq!(get(&server.url(), true).await.unwrap(), "hello");
    let requests = server.requests.lock().unwrap().join("").to_lowercase();
    for header in ["cookie", "authorization", "referer", "origin:"] {
        assert!(!requests.contains(header), "{requests}");
    }
}

#[tokio::test]
async fn private_addresses_are_refused_in_every_notation() {
    let server = Server::answering(&[]).await;
    let port = server.port;
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0x7f000001",
        "2130706433",
        "127.1",
        "0177.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "100.64.0.1",
        "[64:ff9b::7f00:1]",
    ] {
        let refused = get(&format!("http://{host}:{port}/secret"), false).await.unwrap_err();
        assert!(matches!(&refused, FetchError::Refused(why) if why.contains(REMEDY)), "{host}: {refused}");
        assert!(!refused.to_string().contains("secret"));
    }
    assert!(server.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn metadata_and_unspecified_addresses_are_always_refused() {
    for host in [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "0.0.0.0",
        "[::]",
    ] {
        let refused = get(&format!("http://{host}/latest/meta-data"), true).await.unwrap_err();
        assert!(matches!(&refused, FetchError::Refused(_)), "{host}: {refused}");
    }
}

#[tokio::test]
async fn redirects_follow_the_address_rules_and_a_limit() {
    let to =
        |location: &str| format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    for location in [
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "http://user:word@127.0.0.1:PORT/",
        "ftp://127.0.0.1/",
    ] {
        let server = Server::answering(&[&to(location)]).await;
        let refused = get(&server.url(), true).await.unwrap_err();
        assert!(matches!(refused, FetchError::Refused(_)), "{location}: {refused}");
    }
    let again = to("http://127.0.0.1:PORT/again");
    let server = Server::answering(&[again.as_str(); 8]).await;
    let refused = get(&server.url(), true).await.unwrap_err();
    assert!(refused.to_string().contains("redirects"), "{refused}");
    assert_eq!(server.requests.lock().unwrap().len(), MAX_REDIRECTS + 1);
    let server = Server::answering(&[&again, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nthen"]).await;
    assert_eq!(get(&server.url(), true).await.unwrap(), "then");
}

/// An allowed address redirects to a forbidden one.
#[tokio::test]
async fn address_is_checked_again_after_redirect() {
    for inside in ["http://10.255.255.1/", "http://192.168.0.1/", "http://[fd00::1]/"] {
        let to = format!("HTTP/1.1 307 Moved\r\nLocation: {inside}\r\nContent-Length: 0\r\n\r\n");
        let server = Server::answering(&[&to]).await;
        let url = Url::parse(&server.url()).unwrap();
        // It allows one non-public target, this machine, because the URL names it.
        let network = Network::for_server(&url, None, false, "", Duration::from_secs(5));
        let fetcher = fetcher(Duration::from_secs(5));
        let refused = fetcher.follow(&network, url, "image/*").await.unwrap_err();
        assert!(
            matches!(&refused, FetchError::Refused(why) if why.contains("private")),
            "{inside}: {refused}"
        );
        assert_eq!(server.requests.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn non_http_url_is_refused() {
    for url in [
        "file:///etc/passwd",
        "data:image/png;base64,AA",
        "ftp://example.net/a",
        "gopher://127.0.0.1/",
        "a.png",
        "",
    ] {
        assert!(matches!(get(url, true).await.unwrap_err(), FetchError::Url(_)), "{url}");
    }
    let refused = get("http://user:word@127.0.0.1:1/", true).await.unwrap_err();
    assert!(matches!(&refused, FetchError::Url(why) if !why.contains("word@")), "{refused}");
}

#[tokio::test]
async fn file_over_size_limit_is_not_read_completely() {
    let announced = "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n…".to_owned();
    let lying =
        format!("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}…", "x".repeat(5000));
    let endless = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}…", "x".repeat(5000));
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}…",
        "ff\r\n".to_owned() + &"x".repeat(255) + "\r\n"
    );
    let chunks =
        chunked.replace('…', "") + &("ff\r\n".to_owned() + &"x".repeat(255) + "\r\n").repeat(4) + "…";
    for answer in [announced, endless, chunks] {
        let server = Server::answering(&[&answer]).await;
        let refused = get(&server.url(), true).await.unwrap_err();
        assert!(matches!(refused, FetchError::TooLong { limit: 1000, .. }), "{refused}");
    }
    let server = Server::answering(&[&lying]).await;
    assert!(get(&server.url(), true).await.is_err());
}

#[tokio::test]
async fn slow_server_times_out() {
    for answer in ["…", "HTTP/1.1 200 OK\r\n…", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na bit…"]
    {
        let server = Server::answering(&[answer]).await;
        let fetched = fetcher(Duration::from_millis(300)).get(&server.url(), true, "image/*").await;
        assert!(matches!(fetched.unwrap_err(), FetchError::TooSlow { .. }), "{answer}");
    }
}

#[tokio::test]
async fn invalid_answer_is_an_error() {
    for (answer, says) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        ("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "without a valid `Location`"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not answer"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "broke off"),
        ("", "does not answer"),
    ] {
        let server = Server::answering(&[answer]).await;
        let why = get(&server.url(), true).await.unwrap_err().to_string();
        assert!(why.contains(says) && !why.contains("secret"), "{answer:?}: {why}");
    }
}
