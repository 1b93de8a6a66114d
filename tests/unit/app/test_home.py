"""The data directory."""

import base64
from pathlib import Path

import pytest

from headwater.app.home import Home, decode_secret_key
from headwater.errors import SetupError


class TestHome:
    def test_it_is_private(self, tmp_path: Path) -> None:
        home = Home(tmp_path / "data")
        home.create()
        home.write_secret(home.api_key, "secret")
        assert home.path.stat().st_mode & 0o777 == 0o700
        assert home.api_key.stat().st_mode & 0o777 == 0o600

    def test_only_one_process_of_a_kind(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        with home.locked("up"):
            with home.locked("controller"):
                pass
            with pytest.raises(SetupError, match="in use by another `headwater up`"), home.locked("up"):
                pass
        with home.locked("up"):
            pass

    def test_a_place_that_can_not_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SetupError, match="--data-dir"):
            Home(tmp_path / "file" / "data").create()


class TestSecretKey:
    def test_round_trip(self) -> None:
        assert decode_secret_key(base64.b64encode(bytes(range(32))).decode()) == bytes(range(32))

    @pytest.mark.parametrize("text", ["", "short", base64.b64encode(b"x" * 31).decode(), "ä" * 44])
    def test_what_is_refused(self, text: str) -> None:
        with pytest.raises(SetupError, match="32 bytes in base64"):
            decode_secret_key(text)
