//! Checks that the newest entries of the audit log are intact, and when the whole log was last verified.
//!
//! Asks the hub that runs on the folder; if none runs, reads the database. Only the newest entries are verified, so the time
//! does not grow with the log.

use plexus_auth::{AuditAnchor, LastVerification};
use plexus_hub::INSTANCE;
use plexus_proto::api::AuditReport;
use plexus_store::{DatabaseNote, NoWitness, Snapshot, Witness};

use super::hub::RunningHub;
use super::{CheckContext, Finding, database};
use crate::commands::db::backup;
use crate::output::Output;

const CHECK: &str = "audit";
/// Number of entries to verify.
const NEWEST: i64 = 2_000;

pub(super) async fn check(
    context: &CheckContext,
    has_database: bool,
    hub: Option<&RunningHub>,
    out: &Output,
) -> Vec<Finding> {
    if !has_database {
        return Vec::new();
    }
    let hub = hub.filter(|hub| hub.on_folder);
    let folder = &context.config.data_dir;
    let shown = folder.display();
    let head = folder.join("audit.head");
    if !head.exists() {
        let message = format!("{} is missing: the newest entries may have been removed", head.display());
        let fix = "put it back; a hub that starts without it records a break";
        return vec![Finding::problem(CHECK, message, fix)];
    }
    let verify = format!("{} audit verify", context.plexus);
    let (recent, by) = match hub {
        Some(hub) => (verify_through_hub(hub).await, format!("by the hub at {}", hub.url())),
        None => (verify_database(context).await, "from the database".to_owned()),
    };
    let mut found = Vec::new();
    match recent {
        Ok(report) if report.ok => {
            let message =
                format!("the newest {} entries of {shown} are intact, as read {by}", report.entries);
            found.push(Finding::ok(CHECK, message));
        }
        Ok(report) => {
            let why = report.problems.first().map_or("", |problem| problem.message.as_str());
            let message = format!("the audit log of {shown} is not intact: {why}");
            found.push(Finding::problem(CHECK, message, verify.clone()));
        }
        Err(why) => {
            let message = format!("{} exists; the entries were not checked: {why:#}", head.display());
            found.push(Finding::warning(CHECK, message, verify.clone()));
        }
    }
    let was_broken =
        hub.and_then(|hub| hub.status.as_ref()).is_some_and(|status| !status.audit.intact_at_start);
    if was_broken && found.iter().all(|finding| finding.fix.is_none()) {
        let message = format!(
            "the audit log of {shown} did not match its signed head when the hub started, or at an earlier start"
        );
        found.push(Finding::problem(CHECK, message, verify.clone()));
    }
    found.push(last_verification(context, &verify, out));
    found
}

async fn verify_through_hub(hub: &RunningHub) -> anyhow::Result<AuditReport> {
    hub.hub.get(&["audit", "verify"], &[("newest", Some(NEWEST.to_string()))]).await?.decode()
}

async fn verify_database(context: &CheckContext) -> anyhow::Result<AuditReport> {
    let options = database::store_options(&context.config)?;
    if options.database_url.is_none()
        && let Some(note) = DatabaseNote::read(&options.data_dir)?
        && !note.location.is_sqlite()
    {
        anyhow::bail!("this command does not have the URL of {}", note.location);
    }
    let anchor = backup::anchor(&options)?;
    let witness: &dyn Witness = anchor.as_ref().map_or(&NoWitness, |anchor| anchor);
    let no_key = || format!("there is no signing key in {}", options.data_dir.display());
    let signed = anchor.as_ref().map_or_else(|| Err(no_key()), AuditAnchor::read);
    let Some(mut snapshot) = Snapshot::glance(&options).await? else {
        anyhow::bail!("this command cannot reach the database");
    };
    Ok(snapshot.verify_audit_end(INSTANCE, signed, witness, NEWEST).await?)
}

/// When the whole log was last verified.
fn last_verification(context: &CheckContext, verify: &str, out: &Output) -> Finding {
    match LastVerification::read(&context.config.data_dir) {
        Ok(Some(last)) if last.ok => {
            let message = format!("last verified completely {}: {} entries", out.at(last.at), last.entries);
            Finding::ok(CHECK, message)
        }
        Ok(Some(last)) => {
            let message = format!(
                "the last complete verification, {}, found problems: {}",
                out.at(last.at),
                last.problem_count
            );
            Finding::problem(CHECK, message, verify)
        }
        Ok(None) => Finding::ok(CHECK, format!("never verified completely; `{verify}` does that")),
        Err(error) => {
            let message = format!("cannot tell when it was last verified completely: {error}");
            Finding::warning(CHECK, message, verify)
        }
    }
}
