//! `plexus node label`: changes some of a machine's labels and leaves the others.

use std::collections::BTreeMap;

use clap::Args;
use plexus_proto::api::ChangeNodeParams;

use super::{changed, show};
use crate::arguments;
use crate::client::Hub;
use crate::output::{Output, one_line};
use crate::shell;

#[derive(Debug, Args)]
pub(super) struct LabelArgs {
    /// Name or id of the machine
    pub(super) node: String,
    /// A label to set, such as role=nas, or with a dash behind it one to take away, such as role-
    #[arg(required = true, value_name = "KEY=VALUE|KEY-", value_parser = arguments::label_change)]
    changes: Vec<(String, Option<String>)>,
}

pub(super) async fn run(out: &Output, hub: &Hub, args: LabelArgs) -> anyhow::Result<()> {
    let LabelArgs { node, changes } = args;
    let change_labels: BTreeMap<_, _> = changes.into_iter().collect();
    let change = ChangeNodeParams { change_labels, ..ChangeNodeParams::default() };
    let Some(node) = changed(out, hub, &node, &change).await? else { return Ok(()) };
    out.line(&format!("{}: {}", shell::name(&one_line(&node.name)), show::labels(&node.labels)))
}
