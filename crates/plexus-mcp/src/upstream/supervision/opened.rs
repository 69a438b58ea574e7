//! A connection that was just made, with the tools of the server; closed whatever becomes of it.

use std::sync::Arc;

use plexus_kit::Stage;

use super::unit::{Shared, Unit};
use crate::upstream::client::{Client, ClientError, Connect, Definitions};
use crate::upstream::config::ServerConfig;

#[derive(Debug)]
pub(super) struct Opened {
    /// Taken when it is closed.
    client: Option<Client>,
    definitions: Arc<Definitions>,
    shared: Arc<Shared>,
    /// For [`Self::client`] after the end, which there is none of.
    kept: Client,
}

/// Connects and lists the tools; the reason when either fails.
pub(super) async fn open(unit: &Arc<Unit>, config: Arc<ServerConfig>) -> Result<Opened, String> {
    let connect = unit.connect(config, unit.stderr.clone());
    open_with(connect, unit.shared.clone()).await.map_err(|error| error.to_string())
}

pub(super) async fn open_with(connect: Connect, shared: Arc<Shared>) -> Result<Opened, ClientError> {
    let client = Client::connect(connect).await?;
    let mut opened =
        Opened { client: Some(client.clone()), definitions: Arc::default(), shared, kept: client.clone() };
    match client.list_tools().await {
        Ok(definitions) => {
            opened.definitions = Arc::new(definitions);
            Ok(opened)
        }
        Err(error) => {
            opened.close().await;
            Err(error)
        }
    }
}

impl Opened {
    pub(super) fn client(&self) -> &Client {
        &self.kept
    }

    pub(super) fn definitions(&self) -> Arc<Definitions> {
        self.definitions.clone()
    }

    /// Ends the connection and what belongs to it, in good order as long as that does not take too long.
    pub(super) async fn close(mut self) {
        if let Some(client) = self.client.take() {
            close(&client, &self.shared).await;
        }
    }
}

/// Nobody waits for the end of a connection that is given up halfway, but it ends.
impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            close_soon(client, &self.shared);
        }
    }
}

pub(super) async fn close(client: &Client, shared: &Shared) {
    if tokio::time::timeout(shared.timing.close, client.close()).await.is_err() {
        tracing::warn!("the connection to a server did not close in time and is left to itself");
    }
}

pub(super) fn close_soon(client: Client, shared: &Arc<Shared>) {
    let this = shared.clone();
    shared.supervisor.spawn(Stage::Work, "closing an upstream", async move { close(&client, &this).await });
}
