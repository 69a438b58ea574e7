// Connects to the fixture server with the TypeScript SDK, 1.x or 2.x, whichever is installed, and prints what
// it sees, one JSON object per connection.
//
// Argument: a JSON list of connections, each a mode ("2026-07-28", "auto" or "legacy") and either the URL of
// a server or the command line of one.

const info = { name: "typescript", version: "1" };
const sdk = await import("@modelcontextprotocol/client").then(load2, load1);

async function load2({ Client, StreamableHTTPClientTransport }) {
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const options = (mode) => ({ mode: mode === "auto" || mode === "legacy" ? mode : { pin: mode } });
  return {
    client: (capabilities, mode) => new Client(info, { capabilities, versionNegotiation: options(mode) }),
    onElicit: (client, answer) => client.setRequestHandler("elicitation/create", answer),
    call: (client, call, options) => client.callTool(call, options),
    version: (client) => client.getNegotiatedProtocolVersion(),
    StdioClientTransport,
    StreamableHTTPClientTransport,
  };
}

async function load1() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const http = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  return {
    client: (capabilities) => new Client(info, { capabilities }),
    onElicit: (client, answer) => client.setRequestHandler(ElicitRequestSchema, answer),
    call: (client, call, options) => client.callTool(call, undefined, options),
    // The SDK reports the negotiated version only to its transport.
    version: (client) => client.transport.protocolVersion,
    StdioClientTransport: class extends StdioClientTransport {
      setProtocolVersion(version) {
        this.protocolVersion = version;
      }
    },
    StreamableHTTPClientTransport: http.StreamableHTTPClientTransport,
  };
}

for (const [mode, server] of JSON.parse(process.argv[2])) {
  const transport = Array.isArray(server)
    ? new sdk.StdioClientTransport({ command: server[0], args: server.slice(1) })
    : new sdk.StreamableHTTPClientTransport(new URL(server));
  const client = sdk.client({ elicitation: {} }, mode);
  sdk.onElicit(client, async () => ({
    action: "accept",
    content: { username: "ada", email: "ada@example.com" },
  }));
  await client.connect(transport);
  const { tools } = await client.listTools();
  const echo = await client.callTool({ name: "echo", arguments: { text: "hello" } });
  const user = await client.callTool({ name: "test_elicitation", arguments: { message: "Who are you?" } });
  // A call that ends only because it is cancelled: these SDKs ignore progress that comes with the answer.
  const cancel = new AbortController();
  const untilProgress = { signal: cancel.signal, onprogress: () => cancel.abort("heard enough") };
  const slow = sdk.call(client, { name: "slow", arguments: {} }, untilProgress);
  const cancelled = await slow.then(() => false, () => cancel.signal.aborted);
  const resource = await client.readResource({ uri: "test://template/7/data" });
  const named = { name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } };
  const prompt = await client.getPrompt(named);
  console.log(JSON.stringify({
    version: sdk.version(client),
    tools: tools.map((tool) => tool.name),
    echo: echo.content[0].text,
    user: user.content[0].text,
    cancelled,
    resource: JSON.parse(resource.contents[0].text).id,
    prompt: prompt.messages[0].content.text,
  }));
  await client.close();
}
