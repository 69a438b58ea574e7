//! `session_info`: which session this is, and where its files go.

use plexus_proto::{ErrorCode, SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Alias, CallError, Intent, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool};

pub(super) struct SessionInfo;

/// Names of these arguments in other agents' tools.
const ALIASES: &[Alias] = &[Alias::new("session", &["session_id"])];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Another session than your own: its id or its name.
    session: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    #[schemars(with = "String")]
    session_id: SessionId,
    key: String,
    owner: String,
    /// Your identity at the hub: kind and name.
    principal: String,
    profile: Option<String>,
    /// Folder on the hub's machine for files of this session.
    files_dir: String,
    #[schemars(with = "String")]
    created_at: Timestamp,
    events: i64,
}

impl TypedTool for SessionInfo {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::hub(
            "session_info",
            "Session info",
            "Tells which session you are in, your identity at the hub, and the folder on the hub's \
                          machine where files of this session belong.",
            Access::READ,
        )
        .with_aliases(ALIASES)
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let id = context.target_session(args.session.as_deref(), Intent::Read).await?;
        let session = context.store.read().await?.session(id).await?;
        let session = session.ok_or_else(|| {
            CallError::new(ErrorCode::NotFound, "there is no such session yet")
                .hint("The first write under that name creates it.")
        })?;
        let files_dir = context.files_dir(id).map_err(|error| {
            tracing::error!(%error, session = %id, "cannot create the session's folder");
            CallError::new(ErrorCode::Internal, "the hub could not create the session's folder")
        })?;
        let output = Output {
            session_id: id,
            key: session.key,
            owner: session.owner,
            principal: context.principal.subject().to_owned(),
            profile: context.principal.profile().map(str::to_owned),
            files_dir: files_dir.display().to_string(),
            created_at: session.created_at,
            events: session.last_seq,
        };
        let text = format!(
            "Session {} ({})\nYou are {}\nFiles: {}",
            output.session_id, output.key, output.principal, output.files_dir
        );
        Ok(Outcome::Ready(ToolOutput::new(text, &output)))
    }
}
