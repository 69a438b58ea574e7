//! A person at a terminal: each tool is shown, asked about, and approved before the next one comes.

use plexus_proto::api::{PendingTool, QuarantineReason, UpstreamApproval};

use super::{approve, tell};
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Prompt, PromptReply};

/// What a person has decided on one tool.
enum Decision {
    Yes,
    No,
    /// This one and all behind it.
    All,
    Quit,
    Interrupted,
}

/// Asks about each of these. `pending` is all that waits of the server.
pub(super) async fn each(
    out: &Output,
    hub: &Hub,
    server: &str,
    tools: &[PendingTool],
    mut pending: Vec<String>,
) -> anyhow::Result<()> {
    let mut prompt = out.prompt()?;
    let mut approved = Vec::new();
    let mut all = false;
    let mut end = Ok(());
    for (place, tool) in tools.iter().enumerate() {
        show(out, tool)?;
        let of = match tools.len() {
            1 => String::new(),
            count => format!(" ({} of {count})", place + 1),
        };
        let decision = match all {
            true => Decision::Yes,
            false => decision(out, &mut prompt, &format!("Approve {}{of}? [y/n/a/q]", tool.name)).await,
        };
        match decision {
            Decision::Yes => {}
            Decision::All => all = true,
            Decision::No => continue,
            Decision::Quit => break,
            Decision::Interrupted => {
                end = Err(Failure::new(Exit::Failed, "interrupted").into());
                break;
            }
        }
        // At once: what was said yes to stays so, whatever comes of the others.
        match approve(hub, server, std::slice::from_ref(tool)).await {
            Ok(answer) => {
                pending = answer.decode::<UpstreamApproval>()?.pending;
                approved.push(tool.name.clone());
                out.line(&format!("Approved {}.", tool.name))?;
                out.block("\n")?;
            }
            Err(error) => {
                end = Err(error);
                break;
            }
        }
    }
    tell(out, &approved, &pending)?;
    end
}

/// Asks until there is an answer that means something.
async fn decision(out: &Output, prompt: &mut Prompt, question: &str) -> Decision {
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
            _ => out.note("y: approve it; n: leave it waiting; a: approve it and all the rest; q: stop here"),
        }
    }
}

/// A tool with all that speaks for or against it.
pub(super) fn show(out: &Output, tool: &PendingTool) -> anyhow::Result<()> {
    let why = match (&tool.approved, tool.reason) {
        (Some(before), _) => {
            format!(
                "has changed since it was approved by {} on {}",
                before.decided_by,
                out.at(before.decided_at)
            )
        }
        (None, QuarantineReason::Flagged) => "was not trusted when the server was first seen".to_owned(),
        (None, _) => "is new".to_owned(),
    };
    out.line(&format!("{} {why}", tool.name))?;
    for flag in &tool.flags {
        out.diff_line(&format!("! {} in {}: {}", flag.kind.as_str(), flag.at, flag.found))?;
    }
    tool.diff.iter().try_for_each(|line| out.diff_line(line))?;
    out.block("\n")
}
