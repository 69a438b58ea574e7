//! The OpenAI Responses format: request and response contain items, and the events of a stream are numbered.

use serde_json::{Map, Value, json};

use super::reply::{Frame, Refusal, Reply, ReplyCall, WireFormat, openai_error, pieces};
use super::request::{
    MadeCall, Message, OfferedTool, ParsedRequest, ToolResult, flag_of, list_of, text_in, text_of,
};

#[derive(Debug)]
pub(super) struct Responses;

impl WireFormat for Responses {
    fn parse(&self, body: &Value) -> Result<ParsedRequest, String> {
        let mut tools = Vec::new();
        for tool in list_of(body, "tools")? {
            match text_of(tool, "type", "a tool")? {
                "function" => tools.push(function(tool, None)?),
                "namespace" => {
                    let namespace = text_of(tool, "name", "a namespace")?;
                    for inner in list_of(tool, "tools")? {
                        tools.push(function(inner, Some(namespace.to_owned()))?);
                    }
                }
                // Tools that OpenAI runs itself, and free-form tools; scripts do not call them.
                _ => {}
            }
        }
        let instructions = body["instructions"].as_str();
        let mut messages: Vec<Message> =
            instructions.map(|text| text_message("system", text.to_owned())).into_iter().collect();
        match &body["input"] {
            Value::String(text) => messages.push(text_message("user", text.clone())),
            Value::Array(items) => {
                for item in items {
                    messages.extend(message(item)?);
                }
            }
            other => return Err(format!("`input` must be a text or a list of items, not {other}")),
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
        response(reply, "completed", items(reply))
    }

    fn stream(&self, reply: &Reply, _: &Map<String, Value>) -> Vec<Frame> {
        let mut events = vec![
            ("response.created", json!({ "response": response(reply, "in_progress", vec![]) })),
            ("response.in_progress", json!({ "response": response(reply, "in_progress", vec![]) })),
        ];
        let mut index = 0;
        if let Some(text) = &reply.text {
            let position = json!({ "item_id": text_id(reply), "output_index": index, "content_index": 0 });
            let part = json!({ "type": "output_text", "text": "", "annotations": [] });
            let opened = text_item(reply, "in_progress", vec![]);
            events.push(("response.output_item.added", json!({ "output_index": index, "item": opened })));
            events.push(("response.content_part.added", with(&position, "part", part)));
            for piece in pieces(text) {
                events.push(("response.output_text.delta", with(&position, "delta", piece)));
            }
            events.push(("response.output_text.done", with(&position, "text", text.clone())));
            events.push(("response.content_part.done", with(&position, "part", text_part(text))));
            let done = text_item(reply, "completed", vec![text_part(text)]);
            events.push(("response.output_item.done", json!({ "output_index": index, "item": done })));
            index += 1;
        }
        for call in &reply.calls {
            let position = json!({ "item_id": item_id(call), "output_index": index });
            let arguments = call.arguments.to_string();
            let opened = call_item(call, "in_progress", "");
            events.push(("response.output_item.added", json!({ "output_index": index, "item": opened })));
            for piece in pieces(&arguments) {
                events.push(("response.function_call_arguments.delta", with(&position, "delta", piece)));
            }
            let done = with(&position, "arguments", arguments.clone());
            events.push(("response.function_call_arguments.done", done));
            let done = call_item(call, "completed", &arguments);
            events.push(("response.output_item.done", json!({ "output_index": index, "item": done })));
            index += 1;
        }
        events.push(("response.completed", json!({ "response": self.whole(reply) })));
        let numbered = events.into_iter().enumerate();
        numbered
            .map(|(number, (event, data))| Frame::typed(event, with(&data, "sequence_number", number)))
            .collect()
    }

    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        openai_error(refusal)
    }
}

fn function(tool: &Value, namespace: Option<String>) -> Result<OfferedTool, String> {
    Ok(OfferedTool {
        namespace,
        name: text_of(tool, "name", "a tool")?.to_owned(),
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        parameters: tool["parameters"].clone(),
    })
}

/// An item of the conversation; `None` for items that scripts ignore, such as reasoning.
fn message(item: &Value) -> Result<Option<Message>, String> {
    // The type of a message is optional.
    Ok(match item["type"].as_str().unwrap_or("message") {
        "message" => Some(text_message(text_of(item, "role", "a message")?, text_in(&item["content"]))),
        "function_call" => {
            let arguments = text_of(item, "arguments", "a function_call")?;
            let call = MadeCall {
                id: text_of(item, "call_id", "a function_call")?.to_owned(),
                name: text_of(item, "name", "a function_call")?.to_owned(),
                arguments: serde_json::from_str(arguments)
                    .map_err(|e| format!("a function_call: `arguments` are not JSON: {e}"))?,
            };
            Some(Message { role: "assistant".to_owned(), calls: vec![call], ..Message::default() })
        }
        "function_call_output" => {
            let call_id = text_of(item, "call_id", "a function_call_output")?.to_owned();
            let result = ToolResult { call_id, text: text_in(&item["output"]), is_error: false };
            Some(Message { role: "tool".to_owned(), results: vec![result], ..Message::default() })
        }
        _ => None,
    })
}

fn text_message(role: &str, text: String) -> Message {
    Message { role: role.to_owned(), text, ..Message::default() }
}

fn response(reply: &Reply, status: &str, output: Vec<Value>) -> Value {
    let usage = reply.usage;
    let usage = (status == "completed").then(|| {
        json!({
            "input_tokens": usage.input,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": usage.output,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": usage.input + usage.output,
        })
    });
    json!({
        "id": format!("resp_{}", reply.serial),
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": true,
        "tool_choice": "auto",
        "usage": usage,
    })
}

fn items(reply: &Reply) -> Vec<Value> {
    let text = reply.text.iter().map(|text| text_item(reply, "completed", vec![text_part(text)]));
    let calls = reply.calls.iter().map(|call| call_item(call, "completed", &call.arguments.to_string()));
    text.chain(calls).collect()
}

fn text_item(reply: &Reply, status: &str, content: Vec<Value>) -> Value {
    let id = text_id(reply);
    json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": content })
}

fn text_id(reply: &Reply) -> String {
    format!("msg_{}", reply.serial)
}

fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [] })
}

fn call_item(call: &ReplyCall, status: &str, arguments: &str) -> Value {
    let mut item = json!({
        "id": item_id(call),
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.tool.name,
        "arguments": arguments,
    });
    if let Some(namespace) = &call.tool.namespace {
        item["namespace"] = namespace.clone().into();
    }
    item
}

fn item_id(call: &ReplyCall) -> String {
    format!("fc_{}", call.id)
}

fn with(object: &Value, member: &str, value: impl Into<Value>) -> Value {
    let mut object = object.clone();
    object[member] = value.into();
    object
}
