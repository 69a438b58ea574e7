//! A node's data folder, credential and TLS options, shared by `join` and `run`.

use std::path::PathBuf;

use clap::Args;
use plexus_kit::{Environment, config, env};
use plexus_node::link::tls::TlsOptions;
use plexus_node::{Credential, HubError};
use plexus_proto::ErrorCode;

use crate::commands::Invocation;
use crate::failure::{Exit, Failure};

/// Name of the default data folder, next to the hub's: both may be on one machine.
const FOLDER: &str = "plexus-node";

#[derive(Debug, Clone, Args)]
pub(super) struct TlsArgs {
    /// CA certificate to trust in addition to this machine's (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Client certificate to present to the hub (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl TlsArgs {
    /// With absolute paths, because they are stored.
    pub(super) fn options(&self) -> anyhow::Result<TlsOptions> {
        let absolute = |path: &Option<PathBuf>| path.as_ref().map(std::path::absolute).transpose();
        Ok(TlsOptions { ca: absolute(&self.ca)?, identity: absolute(&self.cert)?.zip(absolute(&self.key)?) })
    }

    /// The given options; options that are not given keep their value from when the machine joined.
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

/// The node's data folder: from the flag, the environment, or the default.
pub(super) fn data_dir(invocation: &Invocation<'_>) -> anyhow::Result<PathBuf> {
    let environment = invocation.environment();
    let data_dir = invocation
        .data_dir()
        .map(PathBuf::from)
        .or_else(|| environment.get(env::NODE_DATA_DIR).map(PathBuf::from))
        .or_else(|| default_data_dir(environment));
    let Some(data_dir) = data_dir else {
        let message = "no data folder is known: neither HOME nor XDG_DATA_HOME is set";
        return Err(Failure::new(Exit::Usage, message).hint("name a folder with --data-dir").into());
    };
    Ok(std::path::absolute(data_dir)?)
}

fn default_data_dir(environment: &Environment) -> Option<PathBuf> {
    config::default_data_dir(environment).map(|hub| hub.with_file_name(FOLDER))
}

/// The credential of this machine; `None` if it has not joined.
pub(super) fn credential(data_dir: &std::path::Path) -> anyhow::Result<Option<Credential>> {
    Credential::read(data_dir).map_err(|error| {
        Failure::new(Exit::Failed, error.to_string())
            .hint("repair the file, or join again with `plexus node join --again`")
            .into()
    })
}

/// Converts an error of the hub, with an exit code and a hint.
pub(super) fn failure(error: HubError) -> Failure {
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
        HubError::Unreachable { .. } => {
            Failure { retryable: true, ..failure }.hint("check the address, and that the hub listens on it")
        }
        HubError::Address(_) | HubError::UnexpectedAnswer { .. } => failure,
    }
}
