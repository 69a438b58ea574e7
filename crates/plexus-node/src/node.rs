//! A node: what it is made of, and how it starts and stops.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Durability, Supervisor, private_file};
use plexus_proto::NodeId;
use plexus_proto::node::Welcome;
use plexus_store::{Store, StoreOptions};
use plexus_tools::{Dispatcher, DispatcherOptions, Registry};

use crate::link::{Link, LinkError};
use crate::{Machine, NodeError, NodeOptions, tools};

/// The audit chain of a node's store is that of this machine alone.
const INSTANCE: &str = "node";

/// Cheap to clone; all clones are one node.
#[derive(Debug, Clone)]
pub struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: NodeOptions,
    #[expect(dead_code, reason = "the calls that need it are not here yet")]
    dispatcher: Dispatcher,
}

/// How a link went.
#[derive(Debug)]
pub struct Served {
    /// What the hub said to `hello`; none where it did not come as far as that.
    pub welcome: Option<Welcome>,
    /// Why it is no more.
    pub end: LinkError,
}

impl Node {
    /// Opens the node's store and registers its tools. Calls that ran when the node stopped last are interrupted.
    ///
    /// # Errors
    /// When the folder or the database in it cannot be used; also when another node uses it.
    pub async fn open(options: NodeOptions, supervisor: &Supervisor) -> Result<Self, NodeError> {
        private_file::create_dir(&options.data_dir).map_err(NodeError::DataDir)?;
        let store = Store::open(
            &StoreOptions {
                data_dir: options.data_dir.clone(),
                database_url: None,
                durability: Durability::Process,
                instance_id: INSTANCE.to_owned(),
            },
            supervisor,
        )
        .await?;
        let machine = Machine {
            data_dir: options.data_dir.clone(),
            environment: options.environment.clone(),
            supervisor: supervisor.clone(),
            clock: options.clock.clone(),
        };
        let dispatcher = Dispatcher::new(
            Arc::new(Registry::new(tools::open(&machine).map_err(NodeError::DataDir)?)),
            store,
            options.clock.clone(),
            supervisor.clone(),
            DispatcherOptions {
                files_dir: options.data_dir.join("sessions"),
                calls_per_principal: options.limits.running,
                output_bytes: options.limits.output_bytes,
            },
        );
        Ok(Self(Arc::new(Inner { options, dispatcher })))
    }

    #[must_use]
    pub fn id(&self) -> NodeId {
        self.0.options.id
    }

    /// Speaks to the hub over this link until it ends. A link that is served before ends when a new one begins.
    pub async fn serve(&self, link: Link) -> Served {
        drop(link);
        Served { welcome: None, end: LinkError::Closed(None) }
    }

    /// Takes no new calls, lets those that run end within `patience`, hands the others back as interrupted, says `bye`
    /// and ends the link.
    pub async fn stop(&self, patience: Duration) {
        let _ = patience;
    }
}
