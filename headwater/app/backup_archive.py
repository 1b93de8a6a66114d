"""Reads and writes backup files, which are ZIP archives with a manifest.

The manifest has the size and hash of each file. Only the user who makes a backup can read its file (mode 0600), because
the backup contains the secret key. The file gets its final name after it was written and verified.
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
"""The JSON value of one line."""


class ArchiveWriter:
    """Adds members to an archive that is being written."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members: dict[str, dict[str, Any]] = {}

    def add(self, name: str, content: bytes) -> None:
        """Add a small file."""
        self._write(name, [content])

    def add_lines(self, name: str, lines: Iterable[Line], kind: Callable[[Line], str]) -> None:
        """Add JSON values, one per line. The manifest records their number by kind."""
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

    def close(self, description: dict[str, Any]) -> None:
        """Write the manifest as the last member."""
        manifest = {"format": FORMAT, **description, "members": self._members}
        self._archive.writestr(MANIFEST, json.dumps(manifest, indent=2))


class Archive:
    """A complete backup file, opened for reading."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        try:
            self.manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
            is_known_format = self.manifest["format"] == FORMAT
        except (
            KeyError,
            ValueError,
            TypeError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            RuntimeError,  # zipfile raises it for an encrypted file and for an unknown compression
        ) as error:
            raise self._damaged("it has no manifest") from error
        if not is_known_format:
            raise SetupError(
                f"{path} has the backup format {self.manifest['format']}, which this version does not know. Use a "
                "newer Headwater."
            )

    def verify(self) -> None:
        """Compare all members with the manifest. Raises SetupError."""
        members = self.manifest["members"]
        if {*members, MANIFEST} != set(self._archive.namelist()):
            raise self._damaged("its members differ from the members that its manifest names")
        for name, expected in members.items():
            digest, size = hashlib.sha256(), 0
            for block in self._blocks(name):
                digest.update(block)
                size += len(block)
            if (size, digest.hexdigest()) != (expected["bytes"], expected["sha256"]):
                raise self._damaged(f"the content of {name} does not match its manifest")

    def _blocks(self, name: str) -> Iterator[bytes]:
        try:
            with self._archive.open(name) as member:
                while block := member.read(_BLOCK):
                    yield block
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
            raise self._damaged(f"{name} can't be read ({error})") from error

    def has(self, name: str) -> bool:
        """Whether there is a member with this name."""
        return name in self.manifest["members"]

    def read(self, name: str) -> bytes:
        """Return the content of a small file."""
        return self._archive.read(name)

    def lines(self, name: str) -> Iterator[Line]:
        """Yield the JSON values of a member."""
        with self._archive.open(name) as member:
            for line in member:
                yield json.loads(line)

    def _damaged(self, why: str) -> SetupError:
        return SetupError(f"{self._path} is not a complete Headwater backup: {why}. Use another backup.")


@contextmanager
def writing(path: Path) -> Iterator[ArchiveWriter]:
    """Open a new backup file.

    At the end of the block, the file is verified and gets the name `path`. Raises SetupError.
    """
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
    """Open a backup file without verifying it. Raises SetupError when it is not a backup."""
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise SetupError(f"The backup {path} can't be read ({error.strerror}).") from error
    except zipfile.BadZipFile as error:
        raise SetupError(
            f"{path} is not a complete Headwater backup: it is not a ZIP file, or is truncated. Use another backup."
        ) from error
    with archive:
        yield Archive(path, archive)
