"""A server of the transport of 2024-11-05, on a free port: prints its URL, then serves until it is killed."""

import json
import socket

import anyio
import uvicorn
from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("old")


def say(**what):
    print(json.dumps(what), flush=True)


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
def key(ctx: Context) -> str:
    return ctx.request_context.request.headers.get("x-api-key", "none")


@server.tool()
async def slow() -> str:
    say(slow=True)
    await anyio.sleep(3600)
    return "never"


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
say(url=f"http://127.0.0.1:{listener.getsockname()[1]}/sse")
config = uvicorn.Config(server.sse_app(), log_level="warning")
uvicorn.Server(config).run(sockets=[listener])
