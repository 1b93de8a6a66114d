"""An OpenID Connect server.

It issues signed tokens for client credentials, and serves the key that verifies them.
"""

import base64
import json
import secrets
import ssl
import time
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

AUDIENCE = "kafka"
ISSUER = "tests"
KEY_ID = "key-1"


def encoded(raw: bytes) -> str:
    """Return base64url without padding, as in JSON Web Tokens."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class OidcServer:
    """The server.

    `clients` has the secret of each client id, which is the subject of the client's tokens.

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
        tokens = HTTPServer("127.0.0.1", ssl_context=tls, threaded=True)
        tokens.expect_request("/token", method="POST").respond_with_handler(self._answer)
        keys = HTTPServer("127.0.0.1", threaded=True)
        keys.expect_request("/keys", method="GET").respond_with_json(self._keys())
        self._servers = (tokens, keys)
        for server in self._servers:
            server.start()
        self.token_url, self.keys_url = tokens.url_for("/token"), keys.url_for("/keys")

    def stop(self) -> None:
        """Stop serving."""
        for server in self._servers:
            server.stop()

    def _keys(self) -> dict[str, Any]:
        """Return the JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        n, e = (encoded(value.to_bytes((value.bit_length() + 7) // 8)) for value in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256", "n": n, "e": e}]}

    def _answer(self, request: Request) -> Response:
        """Answer a request for a token."""
        login, form = request.authorization, request.form.to_dict(flat=False)
        client, secret = (login.username or "", login.password or "") if login is not None else ("", "")
        if form.get("grant_type") != ["client_credentials"]:
            return _json(400, {"error": "unsupported_grant_type"})
        if not secret or not secrets.compare_digest(self._clients.get(client, ""), secret):
            return _json(401, {"error": "invalid_client"})
        self.granted.append(form)
        return _json(200, {"access_token": self._token(client), "token_type": "Bearer", "expires_in": self.lifetime_s})

    def _token(self, subject: str) -> str:
        now = int(time.time())
        claims = {"sub": subject, "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + self.lifetime_s}
        head = {"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (head, claims))
        return f"{signed}.{encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _json(status: int, body: dict[str, Any]) -> Response:
    return Response(json.dumps(body), status, content_type="application/json")
