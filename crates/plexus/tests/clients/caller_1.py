"""Calls tools of a hub with the Python SDK 1.x and prints the results as one JSON object.

Argument: a list with one server as JSON, with its `url` and `calls`, pairs of a tool and its arguments. The token is in
PLEXUS_TOKEN.
"""

import asyncio
import json
import os
import sys

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(server):
    headers = {"Authorization": f"Bearer {os.environ['PLEXUS_TOKEN']}"}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        async with streamable_http_client(server["url"], http_client=http) as (read, write, _):
            async with ClientSession(read, write) as session:
                await session.initialize()
                tools = [tool.name for tool in (await session.list_tools()).tools]
                results = [await session.call_tool(name, arguments) for name, arguments in server["calls"]]
    dumped = [result.model_dump(mode="json", by_alias=True, exclude_none=True) for result in results]
    print(json.dumps({"tools": tools, "results": dumped}), flush=True)


asyncio.run(main(*json.loads(sys.argv[1])))
