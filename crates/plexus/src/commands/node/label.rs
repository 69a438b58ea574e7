//! `plexus node label`: sets or removes some of a machine's labels.

use std::collections::BTreeMap;

use clap::Args;
use plexus_proto::api::ChangeNodeParams;

use super::{show, update};
use crate::arguments;
use crate::client::Hub;
use crate::output::{Output, one_line};
use crate::shell;

#[derive(Debug, Args)]
pub(super) struct LabelArgs {
    /// Name or id of the machine
    pub(super) node: String,
    /// Label to set, such as role=nas, or to remove, such as role-
    #[arg(required = true, value_name = "KEY=VALUE|KEY-", value_parser = arguments::label_change)]
    changes: Vec<(String, Option<String>)>,
}

pub(super) async fn run(out: &Output, hub: &Hub, args: LabelArgs) -> anyhow::Result<()> {
    let LabelArgs { node, changes } = args;
    let change_labels: BTreeMap<_, _> = changes.into_iter().collect();
    let change = ChangeNodeParams { change_labels, ..ChangeNodeParams::default() };
    let Some(node) = update(out, hub, &node, &change).await? else { return Ok(()) };
    out.line(&format!("{}: {}", shell::name(&one_line(&node.name)), show::labels(&node.labels)))
}
