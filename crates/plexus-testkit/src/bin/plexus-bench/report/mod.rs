//! What was found out, for people and for programs.

mod compare;
mod json;
mod table;
mod text;

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::args::Args;
use crate::run::Results;

/// In a Markdown file, the tables stand between these lines; what stands outside is left alone.
const BEGIN: &str = "<!-- Written by `make bench`: begin -->";
const END: &str = "<!-- Written by `make bench`: end -->";

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
        save(path, &put_between(&page, &text).with_context(|| path.display().to_string())?)?;
    }
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The page with another text between its marks.
fn put_between(page: &str, text: &str) -> Result<String> {
    let marks = || format!("the lines `{BEGIN}` and `{END}` are not there, in this order");
    let (before, rest) = page.split_once(BEGIN).with_context(marks)?;
    let (_, after) = rest.split_once(END).with_context(marks)?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let page = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nRead it so.\n");
        let written = put_between(&page, "new\n").unwrap();
        assert_eq!(written, format!("# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nRead it so.\n"));
        assert_eq!(put_between(&written, "new\n").unwrap(), written);
        assert!(put_between("# Title\n", "new").is_err());
    }
}
