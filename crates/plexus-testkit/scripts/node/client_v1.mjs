// Connects with the TypeScript SDK 1.x and prints what it sees, one JSON object per line.
//
// Arguments: the URL of the endpoint, and the mode: "legacy", or "resume" to make one call of the tool `work` that asks
// for progress. A third argument is the name of a tool to call after the list, with progress, without further steps. The
// token is in PLEXUS_TOKEN.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { McpError, ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [url, mode, other, given] = process.argv.slice(2);
const say = (what) => console.log(JSON.stringify(what));
const names = ({ tools }) => tools.map((tool) => tool.name);

const opened = Promise.withResolvers();
const changed = Promise.withResolvers();
let resumed = 0;

const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.PLEXUS_TOKEN}` } },
  fetch: async (input, init) => {
    const response = await fetch(input, init);
    if (init?.method === "GET" && response.ok) {
      opened.resolve();
      if (new Headers(init.headers).has("last-event-id")) resumed += 1;
    }
    return response;
  },
});
const client = new Client({ name: "typescript-1", version: "1" });
client.setNotificationHandler(ToolListChangedNotificationSchema, () => changed.resolve());

const call = (args) => client.callTool({ name: "todo", arguments: args });

async function codeOf(call) {
  try {
    await call;
  } catch (error) {
    if (error instanceof McpError) return error.code;
    throw error;
  }
  return null;
}

async function report() {
  const tools = await client.listTools();
  const added = await call({ action: "add", text: "milk" });
  const listed = await call({ action: "list" });
  const failed = await call({ action: "remove", id: 99 });
  say({
    version: transport.protocolVersion,
    tools: names(tools),
    added: added.structuredContent,
    listed: listed.structuredContent,
    text: listed.content[0].text,
    failed: { is_error: failed.isError, text: failed.content[0].text },
    unknown_tool: await codeOf(client.callTool({ name: "no_such_tool", arguments: {} })),
  });
  // The SDK opens the stream asynchronously after the handshake.
  await opened.promise;
  say({ listening: true });
  await changed.promise;
  say({ heard: "tools_list_changed", tools: names(await client.listTools()) });
}

async function resume() {
  await client.listTools();
  say({ calling: true });
  const onprogress = ({ progress }) => say({ progress });
  const result = await client.callTool({ name: "work", arguments: {} }, undefined, { onprogress });
  say({ text: result.content[0].text, resumed });
}

async function use() {
  const tools = await client.listTools();
  const onprogress = () => {};
  const result = await client.callTool({ name: other, arguments: JSON.parse(given ?? "{}") }, undefined, { onprogress });
  say({ tools: names(tools), result });
}

try {
  await client.connect(transport);
} catch (refused) {
  say({ refused: refused.message });
  process.exit(0);
}
await (other ? use() : mode === "resume" ? resume() : report());
await transport.terminateSession();
await client.close();
