"""Builds images from Containerfiles with buildah, without a registry.

The base image is a small Debian with Python, which debootstrap installs from the package sources of this machine.
`python -m tests.kubernetes.cluster.image_builds` builds the image of Headwater.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.brokers.embedded import cache
from tests.kubernetes.cluster.enclosure import outside
from tests.support.debian import create_root, package_source
from tests.support.kafka import CACHE_DIR

ROOT = Path(__file__).parents[3]
BASE_PACKAGES = ("ca-certificates", "python3", "python3-venv")
HEADWATER = "headwater.test/headwater"
COMMAND_WITHIN_S = 1800.0
KEPT_ARCHIVES = 4
"""How many archives of one image stay in the cache."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_SETTINGS = Path("/etc/pip.conf")
_HEADWATER_SOURCES = (
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "setup.py",
    "requirements",
    "clients/python",
    "clients/typescript",
    "console",
    "headwater",
)
CERTIFICATE_VARIABLES = ("NODE_EXTRA_CA_CERTS", "PIP_CERT", "SSL_CERT_FILE")
"""Variables that name this machine's certificates. A Containerfile gets the ones that it declares with ARG."""


def build_headwater() -> Path:
    """Build the image of Headwater, and return its OCI archive.

    The image has the name HEADWATER and the tag `1`.
    """
    return build_image(HEADWATER, ROOT / "deploy" / "Containerfile", _HEADWATER_SOURCES)


def build_image(name: str, containerfile: Path, sources: Sequence[str]) -> Path:
    """Build an image, and return its OCI archive.

    An image of unchanged files comes from the cache.

    The Containerfile begins with `ARG BASE` and `FROM $BASE`.

    Args:
        name: The name of the image, without a tag, such as "headwater.test/headwater". Its tag is `1`.
        containerfile: The Containerfile.
        sources: The files and folders that the Containerfile copies, relative to the root of the repository. Files
            that git ignores are left out.
    """
    root = CACHE_DIR.expanduser() / "kubernetes-images"
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / "lock"):
        _, release = package_source()
        base = _base_name(release)
        files = _files(sources)
        text = b"".join(b"%s\0%s\0" % (file.encode(), (ROOT / file).read_bytes()) for file in files)
        key = hashlib.sha256(text + containerfile.read_bytes() + base.encode()).hexdigest()[:16]
        stem = name.replace("/", "-")

        def build(archive: Path) -> None:
            _create_base(root, base)
            with tempfile.TemporaryDirectory(prefix="headwater-image-") as context:
                for file in files:
                    target = Path(context, file)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / file, target)
                _build(root, name, containerfile, Path(context), base, archive)

        archive = cache.ensure(root / f"{stem}-{key}.tar", build)
        for old in sorted(root.glob(f"{stem}-*.tar"), key=lambda path: path.stat().st_mtime)[:-KEPT_ARCHIVES]:
            old.unlink()
        return archive


def _build(root: Path, name: str, containerfile: Path, context: Path, base: str, archive: Path) -> None:
    started = time.monotonic()
    arguments = {"BASE": base} | {key: os.environ[key] for key in CERTIFICATE_VARIABLES if key in os.environ}
    files = [file for file in (CERTIFICATES, PIP_SETTINGS) if file.exists()]
    volumes = [f"--volume={file}:{file}:ro" for file in files]
    image = f"localhost/build:{archive.stem.rpartition('-')[2]}"
    _buildah(
        root,
        "build",
        "--pull-never",
        *(f"--build-arg={key}={value}" for key, value in arguments.items()),
        *volumes,
        f"--file={containerfile}",
        f"--tag={image}",
        str(context),
    )
    _buildah(root, "push", image, f"oci-archive:{archive}:{name}:1")
    _buildah(root, "rmi", image)
    print(f"Built the image {name} in {time.monotonic() - started:.0f} s.", flush=True)


def _base_name(release: str) -> str:
    key = hashlib.sha256(" ".join([release, *BASE_PACKAGES]).encode()).hexdigest()[:16]
    return f"localhost/base:{key}"


def _create_base(root: Path, image: str) -> None:
    """Create the base image if it is missing."""
    if image in _buildah(root, "images", "--format={{.Name}}:{{.Tag}}").split():
        return
    with tempfile.TemporaryDirectory(prefix="headwater-base-") as system:
        create_root(Path(system), BASE_PACKAGES)
        container = _buildah(root, "from", "scratch").strip()
        _buildah(root, "add", "--quiet", container, system, "/")
        _buildah(root, "commit", "--quiet", "--rm", container, image)


def _files(sources: Sequence[str]) -> list[str]:
    """Return the files below these paths that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *sources]
    return sorted(file for file in _run(command).splitlines() if (ROOT / file).is_file())


def _buildah(root: Path, command: str, *arguments: str) -> str:
    storage = [f"--root={root / 'storage'}", f"--runroot={root / 'run'}", "--storage-driver=vfs"]
    return _run(["buildah", *storage, command, *arguments])


def _run(command: Sequence[str]) -> str:
    result = subprocess.run(
        outside(command),
        cwd=ROOT,
        env=os.environ | {"BUILDAH_ISOLATION": "chroot"},
        capture_output=True,
        text=True,
        timeout=COMMAND_WITHIN_S,
        check=False,
    )
    assert result.returncode == 0, f"{command[0]} failed:\n{(result.stdout + result.stderr)[-8000:]}"
    return result.stdout


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock of all processes for the block."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    build_headwater()
