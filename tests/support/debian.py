"""Creates root file systems of Debian, from the package sources of this machine."""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headwater.brokers.embedded import cache
from tests.kubernetes.cluster.enclosure import outside
from tests.support.kafka import CACHE_DIR

WITHIN_S = 1800.0
_UNNEEDED = ("var/cache/apt", "var/lib/apt/lists")


def package_source() -> tuple[str, str]:
    """Return the address and the release of the packages that apt installs on this machine."""
    targets = _run(["apt-get", "indextargets", "--format=$(REPO_URI) $(RELEASE)", "Created-By: Packages"])
    address, release = targets.splitlines()[0].split()
    return address, release


def create_root(folder: Path, packages: Sequence[str]) -> None:
    """Install a minimal Debian with these packages into a folder."""
    mirror, release = package_source()
    _run(["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", release, str(folder), mirror])
    folder.chmod(0o755)
    for unneeded in _UNNEEDED:
        shutil.rmtree(folder / unneeded, ignore_errors=True)


def unpack_root(folder: Path, packages: Sequence[str]) -> None:
    """Create a root file system like `create_root`.

    It comes from an archive in the cache when it was created before.
    """
    _, release = package_source()
    key = hashlib.sha256(" ".join([release, *packages]).encode()).hexdigest()[:12]

    def pack(archive: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="headwater-root-") as system:
            create_root(Path(system), packages)
            with tarfile.open(archive, "w") as tar:
                tar.add(system, ".")

    archive = cache.ensure(CACHE_DIR.expanduser() / f"test-debian-{key}.tar", pack)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="fully_trusted")


def _run(command: Sequence[str]) -> str:
    result = subprocess.run(outside(command), capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert result.returncode == 0, f"{command[0]} failed:\n{(result.stdout + result.stderr)[-8000:]}"
    return result.stdout
