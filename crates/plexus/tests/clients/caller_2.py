"""Calls tools of a hub with the Python SDK 2.x in 2026-07-28 and prints the results as one JSON object.

Argument: a list with one server as JSON, with its `url` and `calls`, pairs of a tool and its arguments. The token is in
PLEXUS_TOKEN.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main(server):
    headers = {"Authorization": f"Bearer {os.environ['PLEXUS_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(server["url"], http_client=http)
        async with Client(transport, mode="2026-07-28") as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            results = [await client.call_tool(name, arguments) for name, arguments in server["calls"]]
    dumped = [result.model_dump(mode="json", by_alias=True, exclude_none=True) for result in results]
    print(json.dumps({"tools": tools, "results": dumped}), flush=True)


asyncio.run(main(*json.loads(sys.argv[1])))
