//! What `join` and `run` have in common: where a node keeps its things, and how it trusts its hub.

use std::path::PathBuf;

use clap::Args;
use plexus_kit::{Environment, config, env};
use plexus_node::link::tls::TlsOptions;
use plexus_node::{Credential, HubError};
use plexus_proto::ErrorCode;

use crate::commands::Invocation;
use crate::failure::{Exit, Failure};

/// Beside the folder of a hub, which may be on the same machine.
const FOLDER: &str = "plexus-node";

#[derive(Debug, Clone, Args)]
pub(super) struct TlsArgs {
    /// Certificate of an authority to be trusted beside those of this machine (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate to show to the hub (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl TlsArgs {
    /// As full paths, since they are remembered.
    pub(super) fn options(&self) -> anyhow::Result<TlsOptions> {
        let full = |path: &Option<PathBuf>| path.as_ref().map(std::path::absolute).transpose();
        Ok(TlsOptions { ca: full(&self.ca)?, identity: full(&self.cert)?.zip(full(&self.key)?) })
    }

    /// The same, with what was said when the machine joined where nothing is said now.
    pub(super) fn options_or(&self, joined: &TlsOptions) -> anyhow::Result<TlsOptions> {
        let TlsOptions { ca, identity } = self.options()?;
        Ok(TlsOptions {
            ca: ca.or_else(|| joined.ca.clone()),
            identity: identity.or_else(|| joined.identity.clone()),
        })
    }

    pub(super) fn shows_certificate(&self) -> bool {
        self.cert.is_some()
    }
}

/// The node's data folder: of the flag, of the environment, or the default.
pub(super) fn data_dir(invocation: &Invocation<'_>) -> anyhow::Result<PathBuf> {
    let environment = invocation.environment();
    let named = invocation
        .data_dir()
        .map(PathBuf::from)
        .or_else(|| environment.get(env::NODE_DATA_DIR).map(PathBuf::from))
        .or_else(|| default(environment));
    let Some(named) = named else {
        let message = "neither HOME nor XDG_DATA_HOME says where a data folder could be";
        return Err(Failure::new(Exit::Usage, message).hint("name one with --data-dir").into());
    };
    Ok(std::path::absolute(named)?)
}

fn default(environment: &Environment) -> Option<PathBuf> {
    config::default_data_dir(environment).map(|hub| hub.with_file_name(FOLDER))
}

/// What this machine is by its folder, if it has joined.
pub(super) fn joined(data_dir: &std::path::Path) -> anyhow::Result<Option<Credential>> {
    Credential::read(data_dir).map_err(|error| {
        Failure::new(Exit::Failed, error.to_string()).hint("repair it, or join again with --again").into()
    })
}

/// What a person is told when the hub did not let the machine in.
pub(super) fn refused(error: HubError) -> Failure {
    let exit = match &error {
        HubError::Address(_) => Exit::Usage,
        HubError::Unreachable { .. } => Exit::Unreachable,
        HubError::Refused { code: ErrorCode::Unauthenticated | ErrorCode::Forbidden, .. } => Exit::Denied,
        HubError::Refused { .. } | HubError::UnexpectedAnswer { .. } => Exit::Failed,
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        HubError::Refused { code, hint, .. } => {
            let failure = Failure { code: Some(code), retryable: code.is_retryable(), ..failure };
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        HubError::Unreachable { .. } => Failure { retryable: true, ..failure }
            .hint("is the address right, and does the hub listen on it?"),
        HubError::Address(_) | HubError::UnexpectedAnswer { .. } => failure,
    }
}
