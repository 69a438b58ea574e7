"""Connects with the Python SDK 1.x and prints what it sees, one JSON object per line.

Arguments: the URL of the endpoint, and the mode, which is always "legacy". The token is in PLEXUS_TOKEN.
"""

import asyncio
import json
import os
import sys

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client


def say(**what):
    print(json.dumps(what), flush=True)


async def code_of(call):
    try:
        await call
    except McpError as error:
        return error.error.code
    return None


async def main(url):
    opened, changed = asyncio.Event(), asyncio.Event()

    async def on_response(response):
        if response.request.method == "GET" and response.status_code == 200:
            opened.set()

    async def on_message(message):
        root = getattr(message, "root", None)
        if getattr(root, "method", None) == "notifications/tools/list_changed":
            changed.set()

    headers = {"Authorization": f"Bearer {os.environ['PLEXUS_TOKEN']}"}
    async with httpx.AsyncClient(headers=headers, timeout=30, event_hooks={"response": [on_response]}) as http:
        async with streamable_http_client(url, http_client=http) as (read, write, _):
            async with ClientSession(read, write, message_handler=on_message) as session:
                agreed = await session.initialize()
                tools = await session.list_tools()
                added = await session.call_tool("todo", {"action": "add", "text": "milk"})
                listed = await session.call_tool("todo", {"action": "list"})
                failed = await session.call_tool("todo", {"action": "remove", "id": 99})
                say(
                    version=agreed.protocolVersion,
                    tools=[tool.name for tool in tools.tools],
                    added=added.structuredContent,
                    listed=listed.structuredContent,
                    text=listed.content[0].text,
                    failed={"is_error": failed.isError, "text": failed.content[0].text},
                    unknown_tool=await code_of(session.call_tool("no_such_tool", {})),
                )
                # The SDK opens the stream asynchronously after the handshake.
                await asyncio.wait_for(opened.wait(), 30)
                say(listening=True)
                await asyncio.wait_for(changed.wait(), 30)
                tools = await session.list_tools()
                say(heard="tools_list_changed", tools=[tool.name for tool in tools.tools])


asyncio.run(main(sys.argv[1]))
