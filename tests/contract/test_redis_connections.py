"""Connections to Valkey with users, databases and TLS.

They are also tested after an error.
"""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from headwater.errors import RedisUnavailable
from headwater.stores.redis.client import Client, connect
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.valkey import ValkeyServer

DATABASE = 3


@pytest.fixture
def admin(valkey_server: ValkeyServer) -> Iterator[Any]:
    """An administrator of a server with a user `me` and a TCP port.

    Everybody else needs a password.
    """
    with redis.Redis.from_url(valkey_server.url) as admin:
        admin.acl_setuser("me", enabled=True, passwords=["+secret"], categories=["+@all"], keys=["*"])
        admin.config_set("port", free_port())
        admin.config_set("requirepass", "top")
        yield admin


def port(admin: Any) -> int:
    return int(admin.config_get("port")["port"])


@pytest.fixture
def tls(admin: Any, tmp_path: Path) -> Iterator[tuple[Authority, int]]:
    """A port at which the server speaks TLS to clients with a certificate of the authority."""
    authority = Authority(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("server"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    proxy = Proxy(("127.0.0.1", free_port()), ("127.0.0.1", port(admin)), 1, context)
    proxy.start()
    yield authority, proxy.address[1]
    proxy.stop()


def writes_to_its_database(client: Client, admin: Any) -> bool:
    client.pipeline([("SET", "x", 1), ("CLIENT", "SETNAME", "x")])
    with redis.Redis(
        unix_socket_path=admin.connection_pool.connection_kwargs["path"], db=DATABASE, password="top"
    ) as db:
        return bool(db.getdel("x") == b"1")


def test_user_and_database(admin: Any) -> None:
    path = admin.connection_pool.connection_kwargs["path"]
    for url in (
        f"unix://me:secret@{path}?db={DATABASE}",
        f"redis://me:secret@127.0.0.1:{port(admin)}/{DATABASE}",
        f"redis://:top@127.0.0.1:{port(admin)}/{DATABASE}",
    ):
        client = connect(url)
        assert writes_to_its_database(client, admin)
        client.close()


def test_a_missing_password_is_reported(admin: Any) -> None:
    client = connect(f"redis://127.0.0.1:{port(admin)}")
    with pytest.raises(RedisUnavailable, match="requires a user and password"):
        client.pipeline([("GET", "x")])
    client.close()


def test_a_wrong_password_is_reported(admin: Any) -> None:
    client = connect(f"redis://me:wrong@127.0.0.1:{port(admin)}")
    with pytest.raises(RedisUnavailable, match="rejected the user or password"):
        client.pipeline([("GET", "x")])
    client.close()


def test_tls(admin: Any, tls: tuple[Authority, int]) -> None:
    authority, tls_port = tls
    certificate, key = authority.sign("client")
    url = f"rediss://me:secret@127.0.0.1:{tls_port}/{DATABASE}?ssl_ca_certs={authority.file}"
    client = connect(f"{url}&ssl_certfile={certificate}&ssl_keyfile={key}")
    for _ in range(2):
        assert writes_to_its_database(client, admin)
    client.close()


@pytest.mark.parametrize("query", ["", "?ssl_ca_certs={other}"])
def test_a_certificate_of_another_authority_is_rejected(tls: tuple[Authority, int], query: str, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").file
    client = connect(f"rediss://me:secret@127.0.0.1:{tls[1]}{query.format(other=other)}")
    client._guard.check = lambda server: None  # type: ignore[method-assign]  # it would be the first to connect
    with pytest.raises(RedisUnavailable, match="does not answer"):
        client.pipeline([("GET", "x")])
    client.close()


def test_a_connection_is_closed_after_an_error(valkey_url: str) -> None:
    client = connect(valkey_url)
    with redis.Redis.from_url(valkey_url) as admin:
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            client.pipeline([("SET", "x", 1), ("SADD", "x", 1), ("GET", "x")])
        assert client.pipeline([("GET", "x")]) == [b"1"]
        client.pipeline([("CLIENT", "SETNAME", "kept"), ("GET", "x")])
        assert client.pipeline([("CLIENT", "GETNAME")]) == [b"kept"]
        admin.client_kill_filter(skipme=True)
        assert client.pipeline([("CLIENT", "GETNAME"), ("GET", "x")]) == [None, b"1"]
    client.close()


def test_a_server_that_does_not_answer_in_time(valkey_server: ValkeyServer) -> None:
    client = connect(valkey_server.url, reply_timeout_s=0.2)
    with redis.Redis.from_url(valkey_server.url) as admin:
        assert client.pipeline([("GET", "x")]) == [None]
        admin.client_pause(600)
        with pytest.raises(RedisUnavailable, match="does not answer"):
            client.pipeline([("GET", "x")])
        admin.client_unpause()
        assert client.pipeline([("SET", "x", 1), ("GET", "x")]) == [b"OK", b"1"]
    client.close()
