//! Fetches and prints lists of the hub, page by page.

use clap::Args;
use plexus_kit::config::nearest;
use plexus_proto::api::Page;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::{Hub, Param, decode};
use crate::output::{Column, Output};

/// Maximum number of items per request.
const PAGE_SIZE: usize = 100;
/// Maximum number of requests for a list, in case a hub always returns a next page.
const MAX_PAGES: usize = 1_000;
/// Maximum number of names to search for a similar one.
const MAX_NAMES: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Maximum number of items to show
    #[arg(long, value_name = "N", default_value = "50", value_parser = limit)]
    pub(crate) limit: usize,
    /// Continue after an earlier list, with its `next` cursor
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// Parses a number of items that fits in memory.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if (1..=10_000).contains(&limit) => Ok(limit),
        _ => Err("expected a number from 1 to 10000".to_owned()),
    }
}

/// Fetches up to `args.limit` items for which `keep` is true, as the hub's unmodified JSON.
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
        let wanted = (args.limit - items.len()).min(PAGE_SIZE);
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

/// Finds the name in one of the hub's lists that is most similar to a misspelled word.
pub(crate) async fn did_you_mean(hub: &Hub, list: &str, key: &str, word: &str) -> Option<String> {
    let args = ListArgs { limit: MAX_NAMES, cursor: None };
    let page = fetch(hub, &[list], &[], &args, |_| true).await.ok()?;
    let items: Vec<Value> = page.items.iter().filter_map(|item| decode(item).ok()).collect();
    nearest(word, items.iter().filter_map(|item| item[key].as_str())).map(str::to_owned)
}

/// Prints a list as JSON or as rows. `empty` is printed if there are no items.
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
        out.note(&format!("There are more: raise --limit, or continue with --cursor {next}"));
    }
    Ok(())
}
