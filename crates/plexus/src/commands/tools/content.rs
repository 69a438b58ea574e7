//! Describes the blocks of a result that are not text.

use plexus_proto::api::CallToolResponse;
use serde_json::Value;

/// A note for each block that is not text, with its type and size.
pub(super) fn omitted_blocks(response: &CallToolResponse) -> Vec<String> {
    let blocks = response.content.as_ref().and_then(Value::as_array);
    let others = blocks.into_iter().flatten().filter(|block| block["type"] != "text");
    others.map(|block| format!("{}; --json prints it", description(block))).collect()
}

fn description(block: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match block["type"].as_str() {
        Some(kind @ ("image" | "audio")) => {
            let mime = text(&block["mimeType"]).unwrap_or_else(|| "of an unknown type".to_owned());
            let what = if kind == "image" { "1 image" } else { "1 audio recording" };
            format!("{what} ({mime}, {}) not shown", base64_size(&block["data"]))
        }
        Some("resource_link") => {
            format!("1 link to a resource not shown: {}", text(&block["uri"]).unwrap_or_default())
        }
        Some("resource") => {
            let resource = &block["resource"];
            let length = match &resource["blob"] {
                Value::Null => byte_size(resource["text"].as_str().map_or(0, str::len)),
                blob => base64_size(blob),
            };
            format!("1 resource ({}, {length}) not shown", text(&resource["uri"]).unwrap_or_default())
        }
        kind => format!("1 block ({}) not shown", kind.unwrap_or("without a type")),
    }
}

/// The size of base64-encoded data.
fn base64_size(base64: &Value) -> String {
    let text = base64.as_str().unwrap_or_default();
    byte_size(text.trim_end_matches('=').len() * 3 / 4)
}

fn byte_size(bytes: usize) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{} KB", bytes.div_ceil(1024)) }
}

#[cfg(test)]
mod tests;
