//! `scratchpad`: named sections of text, per session.

use plexus_proto::{ErrorCode, SessionId, Timestamp};
use plexus_store::Conn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::visible::nearest;
use crate::{
    Access, Action, Alias, CallError, Intent, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool,
    arguments,
};

const NAME: &str = "scratchpad";
/// One section.
const MAX_BYTES: usize = 256 * 1024;
const MAX_SECTIONS: usize = 200;

pub(super) struct Scratchpad;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ScratchpadAction {
    /// Show the names and sizes of all sections.
    List,
    /// Show a section: needs `section`.
    Read,
    /// Replace a section or make it: needs `section` and `content`.
    Write,
    /// Add to the end of a section or make it: needs `section` and `content`.
    Append,
    /// Delete a section: needs `section`.
    Delete,
}

/// As agents call them in tools of their own.
const ALIASES: &[Alias] = &[
    Alias::new("section", &["name", "key", "title"]),
    Alias::new("content", &["text", "contents", "value"]),
    Alias::new("session", &["session_id"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    action: ScratchpadAction,
    /// Name of the section.
    #[schemars(length(min = 1, max = 200))]
    section: Option<String>,
    content: Option<String>,
    /// Another session than your own: its id, or a name of your choice to share a scratchpad under.
    session: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Section {
    section: String,
    bytes: i64,
    #[schemars(with = "String")]
    updated_at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// All sections after the action.
    sections: Vec<Section>,
    /// The section that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

impl TypedTool for Scratchpad {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        let actions = vec![
            Action::new("list", Access::READ),
            Action::new("read", Access::READ),
            Action::new("write", Access::REMOVE),
            Action::new("append", Access::ADD),
            Action::new("delete", Access::REMOVE),
        ];
        ToolSpec::hub(
            NAME,
            "Scratchpad",
            "Keeps notes of this session in named sections. They outlive your context and a restart: \
                          put findings, decisions and half-done work here.",
            Access::READ,
        )
        .with_actions(actions)
        .with_aliases(ALIASES)
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let intent = match args.action {
            ScratchpadAction::List | ScratchpadAction::Read => Intent::Read,
            ScratchpadAction::Write | ScratchpadAction::Append | ScratchpadAction::Delete => Intent::Write,
        };
        let session = context.target_session(args.session.as_deref(), intent).await?;
        match args.action {
            ScratchpadAction::List => Ok(Outcome::Ready(
                listing(&mut *context.store.read_committed().await?, session, String::new()).await?,
            )),
            ScratchpadAction::Read => {
                let section = args.section.ok_or_else(|| arguments::missing(NAME, "section", "read"))?;
                Ok(Outcome::Ready(
                    read(&mut *context.store.read_committed().await?, session, &section).await?,
                ))
            }
            ScratchpadAction::Write | ScratchpadAction::Append | ScratchpadAction::Delete => {
                let now = context.clock.now();
                Ok(Outcome::transact(move |conn| Box::pin(change(conn, session, args, now))))
            }
        }
    }
}

async fn read(conn: &mut Conn, session: SessionId, section: &str) -> Result<ToolOutput, CallError> {
    let Some(content) = conn.section(session, section).await? else {
        return Err(no_section(conn, session, section).await?);
    };
    let sections = sections(conn, session).await?;
    let text = if content.is_empty() { "(empty)".to_owned() } else { content.clone() };
    Ok(ToolOutput::new(text, &Output { sections, content: Some(content) }))
}

async fn change(
    conn: &mut Conn,
    session: SessionId,
    args: Args,
    now: Timestamp,
) -> Result<ToolOutput, CallError> {
    let action = match args.action {
        ScratchpadAction::Write => "write",
        ScratchpadAction::Append => "append",
        _ => "delete",
    };
    let section = args.section.ok_or_else(|| arguments::missing(NAME, "section", action))?;
    arguments::storable(NAME, "section", &section)?;
    arguments::storable(NAME, "content", args.content.as_deref().unwrap_or_default())?;
    if args.action == ScratchpadAction::Delete {
        if !conn.delete_section(session, &section).await? {
            return Err(no_section(conn, session, &section).await?);
        }
        return listing(conn, session, format!("Deleted {section:?}.\n")).await;
    }
    let added = args.content.ok_or_else(|| arguments::missing(NAME, "content", action))?;
    let before = conn.section(session, &section).await?;
    if before.is_none() && conn.sections(session).await?.len() >= MAX_SECTIONS {
        let message = format!("the scratchpad is full: {MAX_SECTIONS} sections");
        return Err(CallError::new(ErrorCode::Conflict, message).hint("Delete sections you no longer need."));
    }
    let content = match (args.action, before) {
        (ScratchpadAction::Append, Some(before)) => before + &added,
        _ => added,
    };
    if content.len() > MAX_BYTES {
        let message = format!("the section would have {} bytes; the most is {MAX_BYTES}", content.len());
        return Err(
            CallError::new(ErrorCode::TooLarge, message).hint("Nothing was changed. Use another section.")
        );
    }
    conn.write_section(session, &section, &content, now).await?;
    listing(conn, session, format!("{section:?} has {} bytes now.\n", content.len())).await
}

async fn no_section(conn: &mut Conn, session: SessionId, section: &str) -> Result<CallError, CallError> {
    let names: Vec<String> = conn.sections(session).await?.into_iter().map(|info| info.section).collect();
    let error =
        CallError::new(ErrorCode::NotFound, format!("there is no section {section:?} in this session"));
    Ok(match nearest(section, names.iter().map(String::as_str)) {
        Some(nearest_name) => error.hint(format!("Did you mean {nearest_name:?}?")),
        None => error.hint("Use action \"list\" to see what there is."),
    })
}

async fn sections(conn: &mut Conn, session: SessionId) -> Result<Vec<Section>, CallError> {
    let sections = conn.sections(session).await?;
    Ok(sections
        .into_iter()
        .map(|info| Section { section: info.section, bytes: info.bytes, updated_at: info.updated_at })
        .collect())
}

async fn listing(conn: &mut Conn, session: SessionId, mut text: String) -> Result<ToolOutput, CallError> {
    let sections = sections(conn, session).await?;
    if sections.is_empty() {
        text.push_str("The scratchpad is empty.");
    }
    for section in &sections {
        text.push_str(&format!("{} ({} bytes)\n", section.section, section.bytes));
    }
    Ok(ToolOutput::new(text.trim_end(), &Output { sections, content: None }))
}
