// Calls tools of a hub with the TypeScript SDK 2.x in 2026-07-28 and says what came back, as one JSON object.
//
// Argument: a list with one server as JSON, with its `url` and `calls`, pairs of a tool and its arguments. The token is
// in PLEXUS_TOKEN.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [{ url, calls }] = JSON.parse(process.argv[2]);
const requestInit = { headers: { Authorization: `Bearer ${process.env.PLEXUS_TOKEN}` } };
const options = { versionNegotiation: { mode: { pin: "2026-07-28" } } };
const client = new Client({ name: "typescript-2", version: "1" }, options);
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
const { tools } = await client.listTools();
const results = [];
for (const [name, args] of calls) results.push(await client.callTool({ name, arguments: args }));
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results }));
await client.close();
