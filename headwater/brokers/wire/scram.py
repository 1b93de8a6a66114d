"""The client's side of SCRAM (RFC 5802 and 7677), without channel binding, as Kafka's brokers speak it."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

DIGESTS: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""By mechanism."""
MIN_ITERATIONS: Final = 4096
"""RFC 7677: with fewer, who overhears a login guesses passwords from it too fast."""
MAX_ITERATIONS: Final = 1 << 20
"""About a second of this process, which an impostor must not hold up for hours."""
_NO_BINDING: Final = "n,,"


class Scram:
    """One login: `first`, `final`, `verify`, in this order."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str = "") -> None:
        """mechanism: a key of DIGESTS. nonce: random unless given. The password is taken as it is, as Kafka does."""
        self._digest = DIGESTS[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._first = f"n={_escaped(username)},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """What begins the login."""
        return (_NO_BINDING + self._first).encode()

    def final(self, answer: bytes) -> bytes:
        """The proof that this side knows the password. answer: the one to `first`. Raises ValueError."""
        told = _attributes(answer, "rsi")
        if not told["r"].startswith(self._nonce) or told["r"] == self._nonce:
            raise ValueError("its nonce does not continue ours")
        salted = self._salted(base64.b64decode(told["s"], validate=True), int(told["i"]))
        binding = base64.b64encode(_NO_BINDING.encode()).decode()
        final = f"c={binding},r={told['r']}"
        signed = f"{self._first},{answer.decode()},{final}".encode()
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{final},p={base64.b64encode(self._proof(salted, signed)).decode()}".encode()

    def verify(self, answer: bytes) -> None:
        """Whether the other side knows the password too. answer: the one to `final`. Raises ValueError if not."""
        signature = base64.b64decode(_attributes(answer, "v")["v"], validate=True)
        if not self._signature or not hmac.compare_digest(signature, self._signature):
            raise ValueError("its signature is wrong")

    def _salted(self, salt: bytes, iterations: int) -> bytes:
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ValueError(f"{iterations} iterations, not {MIN_ITERATIONS} to {MAX_ITERATIONS}")
        return hashlib.pbkdf2_hmac(self._digest, self._password, salt, iterations)

    def _proof(self, salted: bytes, signed: bytes) -> bytes:
        key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._digest, key).digest(), signed)
        return bytes(one ^ other for one, other in zip(key, signature, strict=True))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _attributes(message: bytes, wanted: str) -> dict[str, str]:
    """By their letters. Raises ValueError without those wanted, and with an error or an extension to be understood."""
    told = {name: value for name, _, value in (part.partition("=") for part in message.decode().split(","))}
    if "e" in told:
        raise ValueError(f"the login failed: {told['e']}")
    if "m" in told or not told.keys() >= set(wanted):
        raise ValueError("it is no SCRAM that this client knows")
    return told
