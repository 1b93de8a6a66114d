"""The start of `headwater up`: its essential children, and the address of the API."""

import socket
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from headwater.app.api_client import ApiClient
from headwater.app.data_directory import DataDirectory
from headwater.app.up import greeting, supervised, up, wait_until_serving
from headwater.children import spawn
from headwater.errors import SetupError
from headwater.settings import Settings
from headwater.supervisor import SupervisedProcess


def test_the_start_fails_if_an_essential_child_exits() -> None:
    refuser = [sys.executable, "-c", "raise SystemExit(2)"]
    with supervised() as supervisor:
        for name, essential in (("ingest live", False), ("controller", True)):
            supervisor.start(SupervisedProcess(name, lambda: spawn(refuser), essential=essential)).wait(10)
        with pytest.raises(SetupError, match="The controller process"):
            wait_until_serving(Settings(), supervisor, threading.Event())


class _Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _ServerV6(HTTPServer):
    address_family = socket.AF_INET6


@pytest.mark.parametrize("host", ["::1", "::"])
def test_an_api_on_an_ipv6_address_becomes_ready(host: str) -> None:
    with _ServerV6(("::1", 0), _Ready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = Settings(host=host, port=server.server_port)
        with supervised() as supervisor:
            assert wait_until_serving(settings, supervisor, threading.Event())
        server.shutdown()


def test_an_ipv6_address_in_the_url_of_the_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_API_KEY", "key")
    settings = Settings(host="::1", port=8123, data_dir=tmp_path)
    assert "http://[::1]:8123 " in greeting(settings, DataDirectory(tmp_path))[0]
    ApiClient(settings, "").close()


def test_the_greeting_names_the_variables_by_which_commands_find_another_port(tmp_path: Path) -> None:
    lines = greeting(Settings(host="0.0.0.0", port=8123), DataDirectory(tmp_path))
    assert "In other terminals:  export HEADWATER_URL=http://127.0.0.1:8123 HEADWATER_PORT=8123" in lines
    assert not any("export" in line for line in greeting(Settings(), DataDirectory(tmp_path)))
    lines = greeting(Settings(data_dir=tmp_path / "my data"), DataDirectory(tmp_path))
    assert f"In other terminals:  export HEADWATER_DATA_DIR='{tmp_path}/my data'" in lines


def test_a_port_that_is_taken_leaves_no_data_directory(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        with pytest.raises(SetupError, match=f"can't listen on 127.0.0.1:{port}"):
            up(Settings(data_dir=tmp_path / "data", port=port), print)
    assert not (tmp_path / "data").exists()
