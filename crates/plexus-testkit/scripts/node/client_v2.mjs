// Connects with the TypeScript SDK 2.x and prints what it sees, one JSON object per line.
//
// Arguments: the URL of the endpoint, and the mode: "2026-07-28", "auto" or "legacy", an older revision to offer no
// newer one than that, or "resume" to make one call of the tool `work` that asks for progress. A third
// argument is the name of a tool to call after the list, with progress, without further steps. The token is in
// PLEXUS_TOKEN.

import { Client, ProtocolError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const STATELESS = "2026-07-28";
const [url, mode, other, given] = process.argv.slice(2);
const say = (what) => console.log(JSON.stringify(what));
const names = ({ tools }) => tools.map((tool) => tool.name);

const opened = Promise.withResolvers();
const changed = Promise.withResolvers();
let resumed = 0;

function options() {
  if (mode === STATELESS) return { versionNegotiation: { mode: { pin: mode } } };
  if (mode === "auto") return { versionNegotiation: { mode } };
  return /^\d/.test(mode) ? { supportedProtocolVersions: [mode] } : {};
}

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
const client = new Client({ name: "typescript-2", version: "1" }, options());
client.setNotificationHandler("notifications/tools/list_changed", () => changed.resolve());

const call = (args) => client.callTool({ name: "todo", arguments: args });

async function codeOf(call) {
  try {
    await call;
  } catch (error) {
    if (error instanceof ProtocolError) return error.code;
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
    version: client.getNegotiatedProtocolVersion(),
    tools: names(tools),
    added: added.structuredContent,
    listed: listed.structuredContent,
    text: listed.content[0].text,
    failed: { is_error: failed.isError, text: failed.content[0].text },
    unknown_tool: await codeOf(client.callTool({ name: "no_such_tool", arguments: {} })),
  });
  const subscription = await listen();
  await changed.promise;
  say({ heard: "tools_list_changed", tools: names(await client.listTools(undefined, { cacheMode: "refresh" })) });
  await subscription?.close();
}

async function listen() {
  if (client.getNegotiatedProtocolVersion() !== STATELESS) {
    // The SDK opens the stream asynchronously after the handshake.
    await opened.promise;
    say({ listening: true });
    return undefined;
  }
  const subscription = await client.listen({ toolsListChanged: true });
  say({ listening: subscription.honoredFilter.toolsListChanged });
  return subscription;
}

async function resume() {
  await client.listTools();
  say({ calling: true });
  const onprogress = ({ progress }) => say({ progress });
  const result = await client.callTool({ name: "work", arguments: {} }, { onprogress });
  say({ text: result.content[0].text, resumed });
}

async function use() {
  const tools = await client.listTools();
  const onprogress = () => {};
  const result = await client.callTool({ name: other, arguments: JSON.parse(given ?? "{}") }, { onprogress });
  say({ tools: names(tools), result });
}

try {
  await client.connect(transport);
} catch (refused) {
  say({ refused: refused.message });
  process.exit(0);
}
await (other ? use() : mode === "resume" ? resume() : report());
if (transport.sessionId) await transport.terminateSession();
await client.close();
