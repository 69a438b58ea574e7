// Calls tools with the TypeScript SDK 1.x and prints the results, one JSON object per server.
//
// Argument: a list of servers as JSON, each with `calls`, pairs of a tool and its arguments, and with `command` and
// `args`, with `sse` or with `url`. A token, if one is needed, is in PLEXUS_TOKEN.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const token = process.env.PLEXUS_TOKEN;
const requestInit = token ? { headers: { Authorization: `Bearer ${token}` } } : {};

function transportTo({ command, args, sse, url }) {
  if (command) return new StdioClientTransport({ command, args, stderr: "ignore" });
  if (sse) return new SSEClientTransport(new URL(sse));
  return new StreamableHTTPClientTransport(new URL(url), { requestInit });
}

for (const server of JSON.parse(process.argv[2])) {
  const client = new Client({ name: "typescript-1", version: "1" });
  await client.connect(transportTo(server));
  const { tools } = await client.listTools();
  const results = [];
  for (const [name, args] of server.calls) results.push(await client.callTool({ name, arguments: args }));
  console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results }));
  await client.close();
}
