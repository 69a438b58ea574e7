//! A connection that was just made, with the tools of the server. Dropped halfway, it ends all the same.

use std::sync::Arc;
use std::time::Duration;

use crate::client::{Client, ClientError, Connect, Definitions};

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) definitions: Arc<Definitions>,
}

impl Opened {
    /// Connects and lists the tools. Both are bounded by the settings of the connection.
    pub(super) async fn open(connect: Connect) -> Result<Self, ClientError> {
        // Boxed: a unit keeps its room for as long as it lives, and connecting takes much of it for a moment.
        let client = Box::pin(Client::connect(connect)).await?;
        let definitions = Arc::new(client.list_tools().await?);
        Ok(Self { client, definitions })
    }
}

/// Ends a connection in good order, as long as that does not take too long; then it ends without being waited for.
pub(super) async fn close(client: &Client, patience: Duration) {
    // Nothing is left to be done about one that takes longer: its process is killed by whoever keeps it.
    let _ = tokio::time::timeout(patience, client.close()).await;
}
