//! `todo`: a list of things to do, per session.

use plexus_proto::{ErrorCode, SessionId, Timestamp};
use plexus_store::{Conn, TodoRecord, TodoStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Access, Action, Alias, CallError, Intent, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool,
    arguments,
};

const NAME: &str = "todo";
/// Together the list stays readable in one answer, whatever characters are in it.
const MAX_ITEMS: i64 = 300;
const MAX_TEXT: usize = 1_000;

pub(super) struct Todo;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TodoAction {
    /// Show the list.
    List,
    /// Add an item: needs `text`.
    Add,
    /// Change an item: needs `id`, and `text` or `status`.
    Update,
    /// Take an item off the list: needs `id`.
    Remove,
    /// Take all items off the list.
    Clear,
}

/// As agents call them in tools of their own.
const ALIASES: &[Alias] = &[
    Alias::new("text", &["content", "title", "task"]),
    Alias::new("id", &["todo_id", "item_id"]),
    Alias::new("session", &["session_id"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    action: TodoAction,
    /// Number of the item, as shown by `list`.
    id: Option<i64>,
    /// What is to be done.
    #[schemars(length(min = 1, max = 1000))]
    text: Option<String>,
    status: Option<TodoStatus>,
    /// Another session than your own: its id, or a name of your choice to share a list under.
    session: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Item {
    id: i64,
    text: String,
    status: TodoStatus,
    #[schemars(with = "String")]
    updated_at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// The list after the action.
    items: Vec<Item>,
}

impl TypedTool for Todo {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        let actions = vec![
            Action::new("list", Access::READ),
            Action::new("add", Access::ADD),
            Action::new("update", Access::SET),
            Action::new("remove", Access::REMOVE),
            Action::new("clear", Access::REMOVE),
        ];
        ToolSpec::hub(
            NAME,
            "To-do list",
            "Keeps the to-do list of this session. It outlives your context and a restart, so write \
                          down the steps of longer work and mark each one as you go. Answers with the whole list.",
            Access::READ,
        )
        .with_actions(actions)
        .with_aliases(ALIASES)
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let intent = if args.action == TodoAction::List { Intent::Read } else { Intent::Write };
        let session = context.target_session(args.session.as_deref(), intent).await?;
        if intent == Intent::Read {
            let todos = context.store.read_committed().await?.todos(session).await?;
            return Ok(Outcome::Ready(output(todos)));
        }
        let now = context.clock.now();
        Ok(Outcome::transact(move |conn| Box::pin(change(conn, session, args, now))))
    }
}

async fn change(
    conn: &mut Conn,
    session: SessionId,
    args: Args,
    now: Timestamp,
) -> Result<ToolOutput, CallError> {
    let no_item = |id: i64| {
        CallError::new(ErrorCode::NotFound, format!("there is no to-do {id} in this session"))
            .hint("Use action \"list\" to see the numbers.")
    };
    match args.action {
        TodoAction::List => {}
        TodoAction::Add => {
            let text = args.text.ok_or_else(|| arguments::missing(NAME, "text", "add"))?;
            check_text(&text)?;
            if conn.todo_count(session).await? >= MAX_ITEMS {
                let message = format!("the list is full: {MAX_ITEMS} items");
                return Err(CallError::new(ErrorCode::Conflict, message).hint("Remove items that are done."));
            }
            let status = args.status.unwrap_or(TodoStatus::Pending);
            conn.add_todo(session, &text, status, now).await?;
        }
        TodoAction::Update => {
            let id = args.id.ok_or_else(|| arguments::missing(NAME, "id", "update"))?;
            if args.text.is_none() && args.status.is_none() {
                return Err(arguments::missing(NAME, "status", "update"));
            }
            if let Some(text) = &args.text {
                check_text(text)?;
            }
            conn.update_todo(session, id, args.text.as_deref(), args.status, now)
                .await?
                .ok_or_else(|| no_item(id))?;
        }
        TodoAction::Remove => {
            let id = args.id.ok_or_else(|| arguments::missing(NAME, "id", "remove"))?;
            if !conn.remove_todo(session, id).await? {
                return Err(no_item(id));
            }
        }
        TodoAction::Clear => {
            conn.clear_todos(session).await?;
        }
    }
    Ok(output(conn.todos(session).await?))
}

fn check_text(text: &str) -> Result<(), CallError> {
    if text.trim().is_empty() || text.len() > 4 * MAX_TEXT {
        let message = format!("expected 1 to {MAX_TEXT} characters that are not all blank");
        return Err(arguments::invalid(
            NAME,
            vec![serde_json::json!({ "path": "/text", "message": message })],
        ));
    }
    arguments::storable(NAME, "text", text)
}

fn output(todos: Vec<TodoRecord>) -> ToolOutput {
    let mut text = String::new();
    let mut items = Vec::with_capacity(todos.len());
    for todo in todos {
        let TodoRecord { id, text: item, status, updated_at } = todo;
        let mark = match status {
            TodoStatus::Pending => "[ ]",
            TodoStatus::InProgress => "[~]",
            TodoStatus::Done => "[x]",
        };
        text.push_str(&format!("{mark} {id}. {item}\n"));
        items.push(Item { id, text: item, status, updated_at });
    }
    if items.is_empty() {
        text.push_str("The list is empty.");
    }
    ToolOutput::new(text.trim_end(), &Output { items })
}
