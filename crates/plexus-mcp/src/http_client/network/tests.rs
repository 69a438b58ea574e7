use super::*;

#[tokio::test]
async fn remote_server_cannot_redirect_the_hub_to_loopback() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let here = [format!("http://127.0.0.1:{port}/"), format!("http://localhost:{port}/")];
    for here in here.iter().map(|url| Url::parse(url).unwrap()) {
        let foreign = Url::parse("https://mcp.example/").unwrap();
        for (from, private, reached) in
            [(&foreign, false, false), (&here, false, true), (&foreign, true, true)]
        {
            let network = Network::for_server(from, None, private, "", Duration::from_secs(5));
            let dialled = network.dial(&here).await;
            assert_eq!(dialled.is_ok(), reached, "{from} {private}: {:?}", dialled.err());
        }
    }
}
