"""The file of a backup: a ZIP of JSON lines and small files, with a manifest of what each of them must be.

It holds the secret key, so only its owner can read it. It appears under its name once it is whole and was read back.
"""

import hashlib
import json
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.errors import SetupError

FORMAT = 1
MANIFEST = "manifest.json"
_BLOCK = 1 << 20

Line = Any
"""A JSON value on a line of its own."""


class ArchiveWriter:
    """Adds members to an archive that is being written."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members: dict[str, dict[str, Any]] = {}

    def add(self, name: str, content: bytes) -> None:
        """Add a small file."""
        self._write(name, [content])

    def add_lines(self, name: str, lines: Iterable[Line], kind: Callable[[Line], str]) -> None:
        """Add JSON values, one a line; the manifest has their number by kind."""
        counts: Counter[str] = Counter()

        def encoded() -> Iterator[bytes]:
            for line in lines:
                counts[kind(line)] += 1
                yield json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

        self._write(name, encoded())
        self._members[name]["lines"] = dict(counts)

    def _write(self, name: str, parts: Iterable[bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        with self._archive.open(name, "w", force_zip64=True) as member:
            for part in parts:
                member.write(part)
                digest.update(part)
                size += len(part)
        self._members[name] = {"bytes": size, "sha256": digest.hexdigest()}

    def close(self, about: dict[str, Any]) -> None:
        """Write the manifest, the last member."""
        manifest = {"format": FORMAT, **about, "members": self._members}
        self._archive.writestr(MANIFEST, json.dumps(manifest, indent=2))


class Archive:
    """A whole archive that is read."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        try:
            self.manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
            known = self.manifest["format"] == FORMAT
        except (
            KeyError,
            ValueError,
            TypeError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
        ) as error:
            raise self._damaged("it has no manifest") from error
        if not known:
            raise SetupError(
                f"{path} is a backup of another format ({self.manifest['format']}): use a newer Headwater."
            )

    def verify(self) -> None:
        """Read everything and compare it with the manifest. Raises SetupError."""
        members = self.manifest["members"]
        if {*members, MANIFEST} != set(self._archive.namelist()):
            raise self._damaged("its members are not those that its manifest names")
        for name, expected in members.items():
            digest, size = hashlib.sha256(), 0
            for block in self._blocks(name):
                digest.update(block)
                size += len(block)
            if (size, digest.hexdigest()) != (expected["bytes"], expected["sha256"]):
                raise self._damaged(f"the content of {name} is not what its manifest says")

    def _blocks(self, name: str) -> Iterator[bytes]:
        try:
            with self._archive.open(name) as member:
                while block := member.read(_BLOCK):
                    yield block
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise self._damaged(f"{name} can't be read ({error})") from error

    def has(self, name: str) -> bool:
        """Whether there is a member of this name."""
        return name in self.manifest["members"]

    def read(self, name: str) -> bytes:
        """A small file."""
        return self._archive.read(name)

    def lines(self, name: str) -> Iterator[Line]:
        """The JSON values of a member."""
        with self._archive.open(name) as member:
            for line in member:
                yield json.loads(line)

    def _damaged(self, why: str) -> SetupError:
        return SetupError(f"{self._path} is no whole backup of Headwater: {why}. Take another one.")


@contextmanager
def writing(path: Path) -> Iterator[ArchiveWriter]:
    """An archive that appears at `path` at the end of the block, once it has been read back. Raises SetupError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    if path.exists():
        raise SetupError(f"There is a file {path} already. Name another one, or remove it.")
    try:
        file = os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")
    except OSError as error:
        raise SetupError(f"The backup {path} can't be written ({error.strerror}). Name another place.") from error
    try:
        with file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
                yield ArchiveWriter(archive)
            file.flush()
            os.fsync(file.fileno())
        with reading(draft) as written:
            written.verify()
        draft.rename(path)
    except OSError as error:
        raise SetupError(f"The backup {path} can't be written ({error.strerror or error}).") from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def reading(path: Path) -> Iterator[Archive]:
    """An archive, not verified yet. Raises SetupError when it is none."""
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise SetupError(f"The backup {path} can't be read ({error.strerror}).") from error
    except zipfile.BadZipFile as error:
        raise SetupError(
            f"{path} is no whole backup of Headwater: it is cut off or something else. Take another one."
        ) from error
    with archive:
        yield Archive(path, archive)
