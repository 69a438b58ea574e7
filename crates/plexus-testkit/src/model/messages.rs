//! The Anthropic Messages format: a request contains messages of blocks, the response is one message of blocks.

use serde_json::{Map, Value, json};

use super::reply::{Frame, Refusal, Reply, WireFormat, pieces};
use super::request::{
    MadeCall, Message, OfferedTool, ParsedRequest, ToolResult, flag_of, list_of, text_in, text_of,
};

#[derive(Debug)]
pub(super) struct Messages;

impl WireFormat for Messages {
    fn parse(&self, body: &Value) -> Result<ParsedRequest, String> {
        let mut tools = Vec::new();
        // Tools that Anthropic runs itself have a type and no schema; scripts do not call them.
        for tool in list_of(body, "tools")?.iter().filter(|tool| !tool["input_schema"].is_null()) {
            tools.push(OfferedTool {
                namespace: None,
                name: text_of(tool, "name", "a tool")?.to_owned(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                parameters: tool["input_schema"].clone(),
            });
        }
        if !body["messages"].is_array() {
            return Err(format!("`messages` must be a list, not {}", body["messages"]));
        }
        let mut messages = Vec::new();
        match &body["system"] {
            Value::Null => {}
            system => messages.push(Message {
                role: "system".to_owned(),
                text: text_in(system),
                ..Message::default()
            }),
        }
        for item in list_of(body, "messages")? {
            messages.push(message(item)?);
        }
        let model = text_of(body, "model", "the request")?.to_owned();
        Ok(ParsedRequest {
            model,
            stream: flag_of(body, "stream")?,
            tools,
            messages,
            ..ParsedRequest::default()
        })
    }

    fn whole(&self, reply: &Reply) -> Value {
        let text = reply.text.iter().map(|text| json!({ "type": "text", "text": text }));
        let calls = reply.calls.iter().map(|call| {
            json!({ "type": "tool_use", "id": call.id, "name": call.tool.full_name(), "input": call.arguments })
        });
        let mut whole = head(reply);
        whole["content"] = text.chain(calls).collect();
        whole["stop_reason"] = stop_reason(reply).into();
        whole["usage"]["output_tokens"] = reply.usage.output.into();
        whole
    }

    fn stream(&self, reply: &Reply, _: &Map<String, Value>) -> Vec<Frame> {
        let mut frames = vec![
            Frame::typed("message_start", json!({ "message": head(reply) })),
            Frame::typed("ping", json!({})),
        ];
        let mut block = |index: usize, opened: Value, deltas: Vec<Value>| {
            let opened = json!({ "index": index, "content_block": opened });
            frames.push(Frame::typed("content_block_start", opened));
            for delta in deltas {
                frames.push(Frame::typed("content_block_delta", json!({ "index": index, "delta": delta })));
            }
            frames.push(Frame::typed("content_block_stop", json!({ "index": index })));
        };
        if let Some(text) = &reply.text {
            let delta = |piece| json!({ "type": "text_delta", "text": piece });
            let deltas = pieces(text).into_iter().map(delta).collect();
            block(0, json!({ "type": "text", "text": "" }), deltas);
        }
        let first = usize::from(reply.text.is_some());
        for (index, call) in reply.calls.iter().enumerate() {
            let delta = |piece| json!({ "type": "input_json_delta", "partial_json": piece });
            let deltas = pieces(&call.arguments.to_string()).into_iter().map(delta).collect();
            let name = call.tool.full_name();
            let opened = json!({ "type": "tool_use", "id": call.id, "name": name, "input": {} });
            block(first + index, opened, deltas);
        }
        let delta = json!({ "stop_reason": stop_reason(reply), "stop_sequence": null });
        let usage = json!({ "output_tokens": reply.usage.output });
        frames.push(Frame::typed("message_delta", json!({ "delta": delta, "usage": usage })));
        frames.push(Frame::typed("message_stop", json!({})));
        frames
    }

    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        let (status, kind) = match refusal {
            Refusal::Invalid(_) => (400, "invalid_request_error"),
            Refusal::NoSuchPath(_) => (404, "not_found_error"),
            Refusal::TooLarge(_) => (413, "request_too_large"),
            Refusal::RateLimited(_) => (429, "rate_limit_error"),
            Refusal::Broken(_) => (500, "api_error"),
            Refusal::Overloaded => (529, "overloaded_error"),
        };
        (status, json!({ "type": "error", "error": { "type": kind, "message": refusal.message() } }))
    }
}

fn message(message: &Value) -> Result<Message, String> {
    let mut read = Message {
        role: text_of(message, "role", "a message")?.to_owned(),
        text: text_in(&message["content"]),
        ..Message::default()
    };
    if message["content"].is_string() {
        return Ok(read);
    }
    for block in list_of(message, "content")? {
        match text_of(block, "type", "a block")? {
            "tool_use" => read.calls.push(MadeCall {
                id: text_of(block, "id", "a tool_use")?.to_owned(),
                name: text_of(block, "name", "a tool_use")?.to_owned(),
                arguments: block["input"].clone(),
            }),
            "tool_result" => read.results.push(ToolResult {
                call_id: text_of(block, "tool_use_id", "a tool_result")?.to_owned(),
                text: text_in(&block["content"]),
                is_error: flag_of(block, "is_error")?,
            }),
            _ => {}
        }
    }
    Ok(read)
}

/// The message without content.
fn head(reply: &Reply) -> Value {
    json!({
        "id": format!("msg_{}", reply.serial),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": reply.usage.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    })
}

fn stop_reason(reply: &Reply) -> &'static str {
    if reply.calls.is_empty() { "end_turn" } else { "tool_use" }
}
