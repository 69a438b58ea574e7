//! Lists of the hub: pages followed until there is as much as was asked for.

use clap::Args;
use plexus_kit::config::nearest;
use plexus_proto::api::Page;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::{Hub, Param, decode};
use crate::output::{Column, Output};

/// Items to ask for in one request.
const PAGE: usize = 100;
/// Requests for one list; a hub that always names a next page is not followed for ever.
const MAX_PAGES: usize = 1_000;
/// Names among which one that was meant is looked for.
const MEANT: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Show at most this many
    #[arg(long, value_name = "N", default_value = "50", value_parser = limit)]
    pub(crate) limit: usize,
    /// Go on where an earlier list ended (its `next`)
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// A number of items that fits into memory.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if (1..=10_000).contains(&limit) => Ok(limit),
        _ => Err("expected a number from 1 to 10000".to_owned()),
    }
}

/// Up to `args.limit` items that `keep` lets through, as the hub wrote them.
pub(crate) async fn fetch(
    hub: &Hub,
    path: &[&str],
    filters: &[Param<'_>],
    args: &ListArgs,
    keep: impl Fn(&RawValue) -> bool,
) -> anyhow::Result<Page<Box<RawValue>>> {
    let mut items: Vec<Box<RawValue>> = Vec::new();
    let mut next = args.cursor.clone();
    for _ in 0..MAX_PAGES {
        let wanted = (args.limit - items.len()).min(PAGE);
        let mut query = filters.to_vec();
        query.extend([("limit", Some(wanted.to_string())), ("cursor", next.clone())]);
        let page: Page<Box<RawValue>> = hub.get(path, &query).await?.decode()?;
        items.extend(page.items.into_iter().filter(|item| keep(item)));
        let same = page.next == next;
        next = page.next;
        if items.len() >= args.limit || next.is_none() || same {
            break;
        }
    }
    Ok(Page { items, next })
}

/// The name in a list of the hub that was most likely meant by a word that is in none.
pub(crate) async fn meant(hub: &Hub, list: &str, key: &str, word: &str) -> Option<String> {
    let args = ListArgs { limit: MEANT, cursor: None };
    let page = fetch(hub, &[list], &[], &args, |_| true).await.ok()?;
    let items: Vec<Value> = page.items.iter().filter_map(|item| decode(item).ok()).collect();
    nearest(word, items.iter().filter_map(|item| item[key].as_str())).map(str::to_owned)
}

/// A list for a program, or as rows for a person; `empty` says what to do when there is none.
pub(crate) fn show<T: DeserializeOwned, C: Into<Column> + Copy>(
    out: &Output,
    page: &Page<Box<RawValue>>,
    columns: &[C],
    row: impl Fn(&T) -> Vec<String>,
    empty: &str,
) -> anyhow::Result<()> {
    if out.json() {
        return out.json_line(&serde_json::to_string(page)?);
    }
    if page.items.is_empty() {
        out.note(empty);
    } else {
        let rows = page.items.iter().map(|item| decode(item).map(|item| row(&item)));
        out.table(columns, rows.collect::<anyhow::Result<Vec<_>>>()?)?;
    }
    if let Some(next) = &page.next {
        out.note(&format!("There is more: raise --limit, or go on with --cursor {next}"));
    }
    Ok(())
}
