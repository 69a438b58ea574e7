"""Calls a tool with the Python SDK 2.x and answers its questions, one JSON object per line.

Arguments: the URL of the endpoint, the mode ("2026-07-28" or "legacy"), and the name of the tool. The token is in
PLEXUS_TOKEN.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

ANSWERS = {"name": "Ann", "color": "blue"}


def say(**what):
    print(json.dumps(what), flush=True)


async def answer(_context, params):
    say(asked=params.message)
    fields = params.requested_schema["properties"]
    return types.ElicitResult(action="accept", content={field: ANSWERS[field] for field in fields})


async def main(url, mode, tool):
    headers = {"Authorization": f"Bearer {os.environ['PLEXUS_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=answer) as client:
            result = await client.call_tool(tool, {})
            say(version=client.protocol_version, text=result.content[0].text)


asyncio.run(main(*sys.argv[1:4]))
