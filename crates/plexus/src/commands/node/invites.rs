//! `plexus node invites` and `uninvite`: who could still join with a code.

use plexus_proto::api::PendingInvite;

use super::show;
use crate::client::Hub;
use crate::listing;
use crate::output::{Output, one_line};

pub(super) async fn list(out: &Output, hub: &Hub) -> anyhow::Result<()> {
    let page = hub.get(&["nodes", "invites"], &[]).await?.decode()?;
    let row = |invite: &PendingInvite| {
        vec![
            invite.name.clone(),
            out.when(invite.expires_at),
            if invite.rejoin { "yes" } else { "-" }.to_owned(),
            show::labels(&invite.labels),
            invite.created_by.clone(),
        ]
    };
    let empty = "Nobody is invited. `plexus node invite NAME` prints the command with which a machine joins.";
    listing::show(out, &page, &["NAME", "EXPIRES", "REJOIN", "LABELS", "INVITED BY"], row, empty)
}

pub(super) async fn withdraw(out: &Output, hub: &Hub, name: &str) -> anyhow::Result<()> {
    let answer = hub.delete(&["nodes", "invites", name]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let PendingInvite { name, .. } = answer.decode()?;
    out.line(&format!("The code for {} is void.", one_line(&name)))
}
