// Calls a tool with the TypeScript SDK 1.x and answers its questions, one JSON object per line.
//
// Arguments: the URL of the endpoint, an unused mode, and the name of the tool. The token is in
// PLEXUS_TOKEN.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [url, , tool] = process.argv.slice(2);
const say = (what) => console.log(JSON.stringify(what));
const answers = { name: "Ann", color: "blue" };

const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.PLEXUS_TOKEN}` } },
});
const client = new Client({ name: "typescript-1", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  say({ asked: params.message });
  const fields = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(fields.map((field) => [field, answers[field]])) };
});
await client.connect(transport);
const result = await client.callTool({ name: tool, arguments: {} });
say({ version: transport.protocolVersion, text: result.content[0].text });
await transport.terminateSession();
await client.close();
