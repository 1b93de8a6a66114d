"""The HTTP server in front of the application.

It limits connections, the time of clients, and the size of heads. uvicorn serves; `protocol.LimitedProtocol` adds the
limits that uvicorn does not have.
"""
