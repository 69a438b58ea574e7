"""Connects with the Python SDK 2.x and prints what it sees, one JSON object per line.

Arguments: the URL of the endpoint, and the mode ("2026-07-28", "auto" or "legacy"). The token is in PLEXUS_TOKEN.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client


def say(**what):
    print(json.dumps(what), flush=True)


async def code_of(call):
    try:
        await call
    except MCPError as error:
        return error.error.code
    return None


async def report(client):
    tools = await client.list_tools()
    added = await client.call_tool("todo", {"action": "add", "text": "milk"})
    listed = await client.call_tool("todo", {"action": "list"})
    failed = await client.call_tool("todo", {"action": "remove", "id": 99})
    say(
        version=client.protocol_version,
        tools=[tool.name for tool in tools.tools],
        added=added.structured_content,
        listed=listed.structured_content,
        text=listed.content[0].text,
        failed={"is_error": failed.is_error, "text": failed.content[0].text},
        unknown_tool=await code_of(client.call_tool("no_such_tool", {})),
    )


async def heard(client):
    tools = await client.list_tools(cache_mode="refresh")
    say(heard="tools_list_changed", tools=[tool.name for tool in tools.tools])


async def main(url, mode):
    opened, changed = asyncio.Event(), asyncio.Event()

    async def on_response(response):
        if response.request.method == "GET" and response.status_code == 200:
            opened.set()

    async def on_message(message):
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            changed.set()

    headers = {"Authorization": f"Bearer {os.environ['PLEXUS_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30, event_hooks={"response": [on_response]}) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, message_handler=on_message) as client:
            await report(client)
            if client.protocol_version == "2026-07-28":
                async with client.listen(tools_list_changed=True) as subscription:
                    say(listening=subscription.honored.tools_list_changed)
                    async for _ in subscription:
                        await heard(client)
                        break
            else:
                # The SDK opens the stream asynchronously after the handshake.
                await asyncio.wait_for(opened.wait(), 30)
                say(listening=True)
                await asyncio.wait_for(changed.wait(), 30)
                await heard(client)


try:
    asyncio.run(main(sys.argv[1], sys.argv[2]))
except* MCPError as refused:
    say(refused=str(refused.exceptions[0]))
