"""The HTTP server in front of the application.

The server is uvicorn. `protocol.LimitedProtocol` adds the limits that uvicorn lacks: on connections, on the time of
clients, and on the size of request heads.
"""
