// Calls tools of a hub with the TypeScript SDK 2.x in 2026-07-28 and prints the results as one JSON object.
//
// Argument: a list with one server as JSON, with `calls`, pairs of a tool and its arguments, and with `command` and `args`
// or with `url`. A token, if one is needed, is in PLEXUS_TOKEN.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [{ url, command, args, calls }] = JSON.parse(process.argv[2]);
const requestInit = { headers: { Authorization: `Bearer ${process.env.PLEXUS_TOKEN}` } };
const options = { versionNegotiation: { mode: { pin: "2026-07-28" } } };
const client = new Client({ name: "typescript-2", version: "1" }, options);
const transport = command
  ? new StdioClientTransport({ command, args, stderr: "ignore" })
  : new StreamableHTTPClientTransport(new URL(url), { requestInit });
await client.connect(transport);
const { tools } = await client.listTools();
const results = [];
for (const [name, given] of calls) results.push(await client.callTool({ name, arguments: given }));
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results }));
await client.close();
