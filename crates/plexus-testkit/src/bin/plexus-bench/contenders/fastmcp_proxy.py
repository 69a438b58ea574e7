"""The FastMCP proxy as described in its manual, on a port, in front of a URL."""

import sys

from fastmcp.server import create_proxy

url, port = sys.argv[1:]
proxy = create_proxy(url, name="proxy")
proxy.run(transport="http", host="127.0.0.1", port=int(port), log_level="warning", show_banner=False)
