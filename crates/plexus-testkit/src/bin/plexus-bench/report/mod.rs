//! What was found out, for people and for programs.

mod compare;
mod json;
mod table;
mod text;

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::args::Args;
use crate::run::Results;

/// In a Markdown file, tables stand between these lines; what stands outside is left alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) begin: &'static str,
    pub(crate) end: &'static str,
}

const MARKS: Marks =
    Marks { begin: "<!-- Written by `make bench`: begin -->", end: "<!-- Written by `make bench`: end -->" };

/// Prints the tables, and writes the files that were asked for.
pub(crate) fn write(results: &Results, args: &Args) -> Result<()> {
    let text = text::all(results, args)?;
    println!("{text}");
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&json::all(results, args)?).context("JSON")?;
        save(path, &format!("{json}\n"))?;
    }
    if let Some(path) = &args.docs {
        let page = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        save(path, &put_between(&page, MARKS, &text).with_context(|| path.display().to_string())?)?;
    }
    Ok(())
}

pub(crate) fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The page with another text between its marks.
pub(crate) fn put_between(page: &str, marks: Marks, text: &str) -> Result<String> {
    let Marks { begin, end } = marks;
    let missing = || format!("the lines `{begin}` and `{end}` are not there, in this order");
    let (before, rest) = page.split_once(begin).with_context(missing)?;
    let (_, after) = rest.split_once(end).with_context(missing)?;
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let Marks { begin, end } = MARKS;
        let page = format!("# Title\n\n{begin}\nold\n{end}\n\nRead it so.\n");
        let written = put_between(&page, MARKS, "new\n").unwrap();
        assert_eq!(written, format!("# Title\n\n{begin}\n\nnew\n\n{end}\n\nRead it so.\n"));
        assert_eq!(put_between(&written, MARKS, "new\n").unwrap(), written);
        assert!(put_between("# Title\n", MARKS, "new").is_err());
    }
}
