"""Connects to the fixture server with the Python SDK 2.x and prints what it sees, one JSON object each time.

Argument: a JSON list of connections, each a mode ("2026-07-28", "auto" or "legacy") and either the URL of a
server or the command line of one.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult


async def asked(context, params):
    return ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})


async def report(server, mode):
    if isinstance(server, list):
        server = stdio_client(StdioServerParameters(command=server[0], args=server[1:]))
    heard = asyncio.Event()

    async def on_progress(progress, total, message):
        heard.set()

    async with Client(server, mode=mode, elicitation_callback=asked) as client:
        tools = await client.list_tools()
        echo = await client.call_tool("echo", {"text": "hello"})
        user = await client.call_tool("test_elicitation", {"message": "Who are you?"})
        # A call that ends only because it is cancelled.
        slow = asyncio.create_task(client.call_tool("slow", {}, progress_callback=on_progress))
        await heard.wait()
        slow.cancel()
        await asyncio.wait([slow])
        resource = await client.read_resource("test://template/7/data")
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        print(json.dumps({
            "version": client.protocol_version,
            "tools": [tool.name for tool in tools.tools],
            "echo": echo.content[0].text,
            "user": user.content[0].text,
            "cancelled": slow.cancelled(),
            "resource": json.loads(resource.contents[0].text)["id"],
            "prompt": prompt.messages[0].content.text,
        }), flush=True)


async def main():
    for mode, server in json.loads(sys.argv[1]):
        await report(server, mode)


asyncio.run(main())
