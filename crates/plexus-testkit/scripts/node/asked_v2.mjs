// Calls a tool with the TypeScript SDK 2.x and answers its questions, one JSON object per line.
//
// Arguments: the URL of the endpoint, the mode ("2026-07-28" or "legacy"), and the name of the tool. The token is in
// PLEXUS_TOKEN.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, mode, tool] = process.argv.slice(2);
const say = (what) => console.log(JSON.stringify(what));
const answers = { name: "Ann", color: "blue" };

const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.PLEXUS_TOKEN}` } },
});
const pinned = mode === "legacy" ? {} : { versionNegotiation: { mode: { pin: mode } } };
const options = { capabilities: { elicitation: { form: {} } }, ...pinned };
const client = new Client({ name: "typescript-2", version: "1" }, options);
client.setRequestHandler("elicitation/create", async ({ params }) => {
  say({ asked: params.message });
  const fields = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(fields.map((field) => [field, answers[field]])) };
});
await client.connect(transport);
await client.listTools();
const result = await client.callTool({ name: tool, arguments: {} });
say({ version: client.getNegotiatedProtocolVersion(), text: result.content[0].text });
await client.close();
