//! The OpenAI Chat Completions format: a request contains messages, the response one choice.

use serde_json::{Map, Value, json};

use super::reply::{Frame, Refusal, Reply, WireFormat, openai_error, pieces};
use super::request::{
    MadeCall, Message, OfferedTool, ParsedRequest, ToolResult, flag_of, list_of, text_in, text_of,
};

#[derive(Debug)]
pub(super) struct Chat;

impl WireFormat for Chat {
    fn parse(&self, body: &Value) -> Result<ParsedRequest, String> {
        let mut tools = Vec::new();
        for tool in list_of(body, "tools")? {
            let function = &tool["function"];
            tools.push(OfferedTool {
                namespace: None,
                name: text_of(function, "name", "a tool's function")?.to_owned(),
                description: function["description"].as_str().unwrap_or_default().to_owned(),
                parameters: function["parameters"].clone(),
            });
        }
        if !body["messages"].is_array() {
            return Err(format!("`messages` must be a list, not {}", body["messages"]));
        }
        let messages = list_of(body, "messages")?.iter().map(message).collect::<Result<_, _>>()?;
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
        let calls: Vec<Value> = reply
            .calls
            .iter()
            .map(|call| {
                let function =
                    json!({ "name": call.tool.full_name(), "arguments": call.arguments.to_string() });
                json!({ "id": call.id, "type": "function", "function": function })
            })
            .collect();
        let mut message = json!({ "role": "assistant", "content": reply.text, "refusal": null });
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let choice =
            json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": finish(reply) });
        let mut whole = head(reply, "chat.completion");
        whole["choices"] = json!([choice]);
        whole["usage"] = usage(reply);
        whole
    }

    fn stream(&self, reply: &Reply, settings: &Map<String, Value>) -> Vec<Frame> {
        let chunk = |delta: Value, finish: Option<&str>| {
            let mut chunk = head(reply, "chat.completion.chunk");
            chunk["choices"] =
                json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
            Frame::unnamed(chunk)
        };
        let mut frames = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
        for piece in reply.text.iter().flat_map(|text| pieces(text)) {
            frames.push(chunk(json!({ "content": piece }), None));
        }
        for (index, call) in reply.calls.iter().enumerate() {
            let function = json!({ "name": call.tool.full_name(), "arguments": "" });
            let opened = json!({ "index": index, "id": call.id, "type": "function", "function": function });
            frames.push(chunk(json!({ "tool_calls": [opened] }), None));
            for piece in pieces(&call.arguments.to_string()) {
                let more = json!({ "index": index, "function": { "arguments": piece } });
                frames.push(chunk(json!({ "tool_calls": [more] }), None));
            }
        }
        frames.push(chunk(json!({}), Some(finish(reply))));
        if settings.get("stream_options").is_some_and(|options| options["include_usage"] == true) {
            let mut last = head(reply, "chat.completion.chunk");
            last["choices"] = json!([]);
            last["usage"] = usage(reply);
            frames.push(Frame::unnamed(last));
        }
        frames.push(Frame::unnamed("[DONE]"));
        frames
    }

    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        openai_error(refusal)
    }
}

fn message(message: &Value) -> Result<Message, String> {
    let role = text_of(message, "role", "a message")?.to_owned();
    let mut calls = Vec::new();
    for call in list_of(message, "tool_calls")? {
        let arguments = text_of(&call["function"], "arguments", "a tool call's function")?;
        calls.push(MadeCall {
            id: text_of(call, "id", "a tool call")?.to_owned(),
            name: text_of(&call["function"], "name", "a tool call's function")?.to_owned(),
            arguments: serde_json::from_str(arguments)
                .map_err(|e| format!("a tool call: `arguments` are not JSON: {e}"))?,
        });
    }
    let text = text_in(&message["content"]);
    if role == "tool" {
        let call_id = text_of(message, "tool_call_id", "a message of a tool")?.to_owned();
        let results = vec![ToolResult { call_id, text, is_error: false }];
        return Ok(Message { role, results, ..Message::default() });
    }
    Ok(Message { role, text, calls, results: vec![] })
}

fn head(reply: &Reply, object: &str) -> Value {
    json!({ "id": format!("chatcmpl-{}", reply.serial), "object": object, "created": 0, "model": reply.model })
}

fn finish(reply: &Reply) -> &'static str {
    if reply.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn usage(reply: &Reply) -> Value {
    let usage = reply.usage;
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    })
}
