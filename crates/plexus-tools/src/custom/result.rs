//! Converts the output of a program into a result.

use jsonschema::Validator;
use plexus_proto::ErrorCode;
use serde_json::Value;

use super::manifest::OutputForm;
use crate::{CallError, ToolOutput, redact};

/// The most problems reported in one error.
const MAX_PROBLEMS: usize = 5;
/// The most characters of invalid output that an error quotes.
const MAX_QUOTED: usize = 80;

/// The result of a program that ended successfully.
pub(super) fn of(
    name: &str,
    form: OutputForm,
    validator: Option<&Validator>,
    written: Vec<u8>,
) -> Result<ToolOutput, CallError> {
    let failed = |message: String| CallError::new(ErrorCode::ToolFailed, message);
    let text = String::from_utf8(written)
        .map_err(|_| failed(format!("{name} wrote what is not UTF-8")).hint("Have it write UTF-8."))?;
    let text = text.trim_end();
    if form == OutputForm::Text {
        return Ok(ToolOutput::Own { text: text.to_owned(), structured: None });
    }
    let hint =
        r#"Have it write one JSON value to its standard output, or put "output": "text" into its manifest."#;
    if text.is_empty() {
        return Err(failed(format!("{name} wrote nothing to its standard output")).hint(hint));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let began: String = text.chars().take(MAX_QUOTED).collect();
        let began = redact::text(&began).unwrap_or(began);
        failed(format!("{name} wrote what is not JSON ({error}); it begins with {began:?}")).hint(hint)
    })?;
    if let Some(validator) = validator.filter(|validator| !validator.is_valid(&value)) {
        let problems: Vec<String> = validator
            .iter_errors(&value)
            .take(MAX_PROBLEMS)
            .map(|error| {
                let path = error.instance_path().to_string();
                format!(
                    "- {}: {}",
                    if path.is_empty() { "(result)" } else { &path },
                    error.masked_with("the value")
                )
            })
            .collect();
        return Err(failed(format!(
            "{name} wrote what its output_schema does not allow:\n{}",
            problems.join("\n")
        )));
    }
    let text = match &value {
        Value::String(text) => text.clone(),
        _ => text.to_owned(),
    };
    // Clients of older revisions accept only objects as structured content.
    Ok(ToolOutput::Own { text, structured: Some(value).filter(Value::is_object) })
}
