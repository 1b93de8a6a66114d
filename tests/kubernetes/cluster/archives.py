"""Writes images as OCI archives, which containerd imports."""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_MEDIA_TYPE = "application/vnd.oci.image"


def write_archive(archive: Path, image: str, entrypoint: Sequence[str], files: Sequence[Path]) -> None:
    """Write an image of one layer, which has these files in its root folder.

    `image` is a name with a tag. `entrypoint` is the command line that its containers run.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for file in files:
            tar.add(file, arcname=file.name)
    blobs: dict[str, bytes] = {}
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint)},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer.getvalue())]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA_TYPE}.manifest.v1+json",
        "config": _add(blobs, f"{_MEDIA_TYPE}.config.v1+json", _json(config)),
        "layers": [_add(blobs, f"{_MEDIA_TYPE}.layer.v1.tar", layer.getvalue())],
    }
    described = _add(blobs, f"{_MEDIA_TYPE}.manifest.v1+json", _json(manifest))
    index = {
        "schemaVersion": 2,
        "manifests": [described | {"annotations": {"io.containerd.image.name": image}}],
    }
    with tarfile.open(archive, "w") as tar:
        _put(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _put(tar, "index.json", _json(index))
        for digest, data in blobs.items():
            _put(tar, f"blobs/{digest.replace(':', '/')}", data)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _add(blobs: dict[str, bytes], media_type: str, data: bytes) -> dict[str, Any]:
    """Add a blob, and return its descriptor."""
    blobs[_digest(data)] = data
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
