import json
import secrets
import socket
from pathlib import Path

import pytest

from headwater.brokers.embedded import ports
from headwater.brokers.embedded.ports import FIRST_PORT, PORT_COUNT, load_or_choose_ports, read_ports
from headwater.errors import SetupError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ports.json"


def test_ports_are_chosen_once(path: Path) -> None:
    first = load_or_choose_ports(path, "127.0.0.1")
    assert load_or_choose_ports(path, "127.0.0.1") == read_ports(path) == first
    assert len(set(first)) == 3
    assert all(FIRST_PORT <= port < FIRST_PORT + PORT_COUNT for port in first)


def test_each_port_is_free_on_its_own_address(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([1, 2, 3, 4])
    monkeypatch.setattr(ports, "RELEASE_TIMEOUT_S", 0.0)
    monkeypatch.setattr(secrets, "randbelow", lambda _: next(draws))
    monkeypatch.setattr(ports, "_is_free", lambda host, port: (host, port) != ("127.0.0.1", FIRST_PORT + 2))
    expected = (FIRST_PORT + 1, FIRST_PORT + 3, FIRST_PORT + 4)
    assert load_or_choose_ports(path, "192.0.2.1") == expected


def test_chosen_ports_are_below_the_ephemeral_range(path: Path) -> None:
    low, _high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert max(load_or_choose_ports(path, "127.0.0.1")) < low


def test_other_entries_of_the_file_are_kept(path: Path) -> None:
    path.write_text('{"api": 8080}')
    chosen = load_or_choose_ports(path, "127.0.0.1")
    assert json.loads(path.read_text()) == {"api": 8080, **chosen._asdict()}


def test_a_changed_number_is_used(path: Path) -> None:
    chosen = load_or_choose_ports(path, "127.0.0.1")._asdict()
    free = load_or_choose_ports(path.with_name("other.json"), "127.0.0.1").kafka
    path.write_text(json.dumps(chosen | {"kafka": free}))
    assert load_or_choose_ports(path, "127.0.0.1").kafka == free


@pytest.mark.parametrize("name", ["kafka", "kafka_internal", "kafka_controller"])
def test_taken(path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(ports, "RELEASE_TIMEOUT_S", 0.0)
    port = load_or_choose_ports(path, "127.0.0.1")._asdict()[name]
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(SetupError, match=rf"Port {port} \({name}\) is used.*change the number of {name} in {path}"),
    ):
        load_or_choose_ports(path, "127.0.0.1")


@pytest.mark.parametrize("content", ["", "[]", '{"kafka": "9092"}', '{"kafka": true}', "{"])
def test_damaged_file(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(SetupError, match=f"{path} is damaged: correct it, or remove it"):
        load_or_choose_ports(path, "127.0.0.1")


def test_no_ports_yet(path: Path) -> None:
    with pytest.raises(SetupError, match="contains no ports of Kafka"):
        read_ports(path)


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_not_our_address(path: Path, host: str) -> None:
    with pytest.raises(SetupError, match=f"{host} is no address to listen on .*: correct --host"):
        load_or_choose_ports(path, host)
