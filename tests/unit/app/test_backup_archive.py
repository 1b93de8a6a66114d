"""A backup archive is complete or rejected, and readable only by its owner."""

import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headwater.app.backup_archive import MANIFEST, reading, writing
from headwater.errors import SetupError

LINES = [["flows", {"name": "größe"}], ["keys", {"id": 7}], ["flows", {"name": ""}]]


def write_archive(path: Path) -> Path:
    with writing(path) as archive:
        archive.add("secret-key", b"secret\n")
        archive.add_lines("database.jsonl", LINES, lambda line: str(line[0]))
        archive.close({"schema": "0005"})
    return path


def test_an_archive_is_read_back(tmp_path: Path) -> None:
    with reading(write_archive(tmp_path / "b")) as archive:
        archive.verify()
        assert archive.read("secret-key") == b"secret\n"
        assert list(archive.lines("database.jsonl")) == LINES
        assert archive.manifest["members"]["database.jsonl"]["lines"] == {"flows": 2, "keys": 1}
        assert (archive.manifest["schema"], archive.has("api-key")) == ("0005", False)


def test_an_archive_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    assert write_archive(tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "b")
    before = path.read_bytes()
    with pytest.raises(SetupError, match="already"):
        write_archive(path)
    assert path.read_bytes() == before


def test_a_failed_backup_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "b") as archive:
        archive.add_lines("database.jsonl", LINES, lambda _: str(1 / 0))
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_or_changed_file_is_rejected(tmp_path: Path) -> None:
    whole = write_archive(tmp_path / "whole").read_bytes()
    with zipfile.ZipFile(tmp_path / "whole") as archive:
        names = [(info.header_offset, info.filename) for info in archive.infolist()]
    random_ = random.Random(1)
    damaged = [whole[: random_.randrange(len(whole))] for _ in range(20)]
    for offset, name in names:
        begin = offset + 30 + len(name) + 20
        damaged.append(whole[:begin] + bytes([whole[begin] ^ 0xFF]) + whole[begin + 1 :])
    for number, content in enumerate(damaged):
        path = tmp_path / str(number)
        path.write_bytes(content)
        with pytest.raises(SetupError), reading(path) as archive_:
            archive_.verify()


@pytest.mark.parametrize("change", ["missing", "added", "content", "format"])
def test_a_member_that_differs_from_the_manifest(tmp_path: Path, change: str) -> None:
    with zipfile.ZipFile(write_archive(tmp_path / "whole")) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changes: dict[str, dict[str, Any]] = {
        "missing": {"secret-key": None},
        "added": {"more": b""},
        "content": {"secret-key": b"another"},
        "format": {MANIFEST: members[MANIFEST].replace(b'"format": 1', b'"format": 2')},
    }
    with zipfile.ZipFile(tmp_path / "changed", "w") as archive:
        for name, content in (members | changes[change]).items():
            if content is not None:
                archive.writestr(name, content)
    with pytest.raises(SetupError), reading(tmp_path / "changed") as read:
        read.verify()


def test_other_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no backup")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("a", "b")
    for name in ("text", "zip", "missing"):
        with pytest.raises(SetupError), reading(tmp_path / name):
            pass


def test_an_encrypted_file_is_rejected(tmp_path: Path) -> None:
    content = bytearray(write_archive(tmp_path / "whole").read_bytes())
    offset = content.find(b"PK\x01\x02")
    while offset >= 0:  # set the flag "encrypted" of each entry of the central directory
        content[offset + 8] |= 1
        offset = content.find(b"PK\x01\x02", offset + 4)
    (tmp_path / "encrypted").write_bytes(content)
    with pytest.raises(SetupError, match="not a complete"), reading(tmp_path / "encrypted"):
        pass
