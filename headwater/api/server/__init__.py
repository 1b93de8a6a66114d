"""The HTTP server in front of the application: who may connect, how long a client may take, and how much it may send.

uvicorn serves; `protocol.LimitedProtocol` adds the limits that uvicorn does not have.
"""
