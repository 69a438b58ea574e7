use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_util::sync::CancellationToken;

use super::Stalling;

#[tokio::test]
async fn stalled_write_fails_and_slow_write_succeeds() {
    let (ours, mut theirs) = duplex(4);
    let mut stalling = Stalling::new(ours, Duration::from_millis(50), CancellationToken::new());
    // Slow overall, but never without progress for long.
    let reader = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            theirs.read_exact(&mut [0; 4]).await.unwrap();
        }
    };
    let (written, ()) = tokio::join!(stalling.write_all(&[0; 80]), reader);
    written.unwrap();
    let error = stalling.write_all(&[0; 80]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}
