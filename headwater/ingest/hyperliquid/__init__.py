"""Reads Hyperliquid from the files of a node, or from the WebSocket API."""
