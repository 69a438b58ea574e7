use tokio::net::TcpListener;

use super::*;

/// Parses these bytes, arriving in pieces of the given size.
async fn answer(bytes: &'static str, piece: usize) -> Result<(u16, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serve = async {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut request = [0; 4];
        stream.read_exact(&mut request).await?;
        for piece in bytes.as_bytes().chunks(piece) {
            stream.write_all(piece).await?;
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    let ask = async {
        let mut connection = Connection::open(address).await?;
        let answer = connection.exchange(b"ping").await?;
        anyhow::Ok((answer.status, answer.text()))
    };
    let (served, answer) = tokio::join!(serve, ask);
    served?;
    answer
}

#[tokio::test]
async fn answer_is_read_with_any_framing_and_any_piece_size() {
    let framed = [
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{\"a\r\n4;x=y\r\n\":1}\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
         e\r\nid: 1\ndata: \n\n\r\n21\r\nevent: message\r\ndata: {\"a\":1}\r\n\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 14\r\n\r\ndata: {\"a\":1}\n",
    ];
    for bytes in framed {
        for piece in [1, 2, 7, 1000] {
            let read = answer(bytes, piece).await.unwrap();
            assert_eq!(read, (200, "{\"a\":1}".to_owned()), "{bytes:?} in pieces of {piece}");
        }
    }
}

#[tokio::test]
async fn truncated_answer_is_an_error() {
    for bytes in
        ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "HTTP/1.1 200 OK\r\n\r\n", "nonsense\r\n\r\n"]
    {
        assert!(answer(bytes, 5).await.is_err(), "{bytes:?}");
    }
}
