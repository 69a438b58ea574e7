//! Prompts for each tool on a terminal, and approves it before it shows the next one.

use plexus_proto::api::{PendingTool, QuarantineReason, UpstreamApproval};

use super::{approve, print_result};
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Prompt, PromptReply};

/// The answer to the prompt of one tool.
enum Decision {
    Yes,
    No,
    /// This tool and all remaining ones.
    All,
    Quit,
    Interrupted,
}

/// Prompts for each of these tools. `pending` is the whole quarantine of the server.
pub(super) async fn approve_each(
    out: &Output,
    hub: &Hub,
    server: &str,
    tools: &[PendingTool],
    mut pending: Vec<String>,
) -> anyhow::Result<()> {
    let mut prompt = out.prompt()?;
    let mut approved = Vec::new();
    let mut all = false;
    let mut result = Ok(());
    for (index, tool) in tools.iter().enumerate() {
        show(out, tool)?;
        let position = match tools.len() {
            1 => String::new(),
            count => format!(" ({} of {count})", index + 1),
        };
        let decision = match all {
            true => Decision::Yes,
            false => ask(out, &mut prompt, &format!("Approve {}{position}? [y/n/a/q]", tool.name)).await,
        };
        match decision {
            Decision::Yes => {}
            Decision::All => all = true,
            Decision::No => continue,
            Decision::Quit => break,
            Decision::Interrupted => {
                result = Err(Failure::new(Exit::Failed, "interrupted").into());
                break;
            }
        }
        // Approved at once, so that it stays approved if a later one fails.
        match approve(hub, server, std::slice::from_ref(tool)).await {
            Ok(answer) => {
                pending = answer.decode::<UpstreamApproval>()?.pending;
                approved.push(tool.name.clone());
                out.line(&format!("Approved {}.", tool.name))?;
                out.block("\n")?;
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    print_result(out, &approved, &pending)?;
    result
}

/// Asks until the answer is valid.
async fn ask(out: &Output, prompt: &mut Prompt, question: &str) -> Decision {
    loop {
        let answer = match prompt.ask(question).await {
            PromptReply::Line(answer) => answer,
            PromptReply::Eof => return Decision::Quit,
            PromptReply::Interrupted => return Decision::Interrupted,
        };
        match answer.as_str() {
            "y" | "yes" => return Decision::Yes,
            "n" | "no" => return Decision::No,
            "a" | "all" => return Decision::All,
            "q" | "quit" => return Decision::Quit,
            _ => out.note(
                "y: approve it; n: leave it in quarantine; a: approve it and all remaining ones; q: stop",
            ),
        }
    }
}

/// Shows a tool with its reason, its flags and the changes of its definition.
pub(super) fn show(out: &Output, tool: &PendingTool) -> anyhow::Result<()> {
    let why = match (&tool.approved, tool.reason) {
        (Some(before), _) => {
            format!(
                "has changed since it was approved by {} on {}",
                before.decided_by,
                out.at(before.decided_at)
            )
        }
        (None, QuarantineReason::Flagged) => "was flagged when the server was first seen".to_owned(),
        (None, _) => "is new".to_owned(),
    };
    out.line(&format!("{} {why}", tool.name))?;
    for flag in &tool.flags {
        out.diff_line(&format!("! {} in {}: {}", flag.kind.as_str(), flag.at, flag.found))?;
    }
    tool.diff.iter().try_for_each(|line| out.diff_line(line))?;
    out.block("\n")
}
