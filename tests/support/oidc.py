"""An OpenID Connect server: it issues signed tokens for client credentials, and serves the key that verifies them."""

import base64
import json
import secrets
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"
ISSUER = "tests"
KEY_ID = "key-1"


def encoded(raw: bytes) -> str:
    """Return base64url without padding, as in JSON Web Tokens."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class OidcServer:
    """The server. `clients` has the secret of each client id, which is the subject of the client's tokens.

    Tokens are served over TLS. Keys are served without TLS, so that Kafka need not trust the certificate authority.

    Attributes:
        lifetime_s: The lifetime of new tokens in seconds.
        granted: The forms of all granted requests.
    """

    def __init__(self, clients: Mapping[str, str], tls: ssl.SSLContext) -> None:
        self._clients = clients
        self._key = rsa.generate_private_key(65537, 2048)
        self.lifetime_s = 3600
        self.granted: list[dict[str, list[str]]] = []
        handler = type("Handler", (_Handler,), {"oidc": self})
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
        secured, plain = self._servers
        secured.socket = tls.wrap_socket(secured.socket, server_side=True)
        self.token_url = f"https://127.0.0.1:{secured.server_port}/token"
        self.keys_url = f"http://127.0.0.1:{plain.server_port}/keys"
        self._threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in self._servers]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop serving."""
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()

    def keys(self) -> dict[str, Any]:
        """Return the JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        n, e = (encoded(value.to_bytes((value.bit_length() + 7) // 8)) for value in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256", "n": n, "e": e}]}

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the response to a token request."""
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        if not secret or not secrets.compare_digest(self._clients.get(client, ""), secret):
            return 401, {"error": "invalid_client"}
        self.granted.append(form)
        token = self._token(client)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}

    def _token(self, subject: str) -> str:
        now = int(time.time())
        claims = {"sub": subject, "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + self.lifetime_s}
        head = {"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (head, claims))
        return f"{signed}.{encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class _Handler(BaseHTTPRequestHandler):
    oidc: OidcServer

    def do_GET(self) -> None:
        self._send(200, self.oidc.keys())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._send(*self.oidc.answer(self.headers.get("Authorization", ""), parse_qs(body)))

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""
