"""Kafka's data folder: formatted once, with the administrator's credential in it."""

import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

from headwater.brokers.embedded.files import write_private
from headwater.brokers.embedded.runtime import JVM_VARIABLES, Runtime
from headwater.children import inherited
from headwater.errors import SetupError

_TIMEOUT_S: Final = 120.0


def ensure_formatted(home: Path, runtime: Runtime, credential: str) -> None:
    """Make `home/data` when it is missing, from `home/server.properties`.

    It is made in a scratch folder and then named, so a folder of this name is complete. credential: as the formatter's
    --add-scram takes it. Raises SetupError.
    """
    data = home / "data"
    if data.exists():
        return
    scratch = home / "formatting"
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "tmp").mkdir(parents=True)
    shutil.copy(home / "server.properties", scratch)
    write_private(scratch / "arguments", _arguments(credential))
    _run(runtime, scratch)
    (scratch / "data").rename(data)
    shutil.rmtree(scratch)


def _arguments(credential: str) -> str:
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return f"--cluster-id={cluster_id}\n--config\nserver.properties\n--add-scram\n{credential}\n"


def _run(runtime: Runtime, folder: Path) -> None:
    # Its standard output shows the stored form of the password, so it goes nowhere.
    done = subprocess.run(
        runtime.formatter("arguments"),
        env=inherited(*JVM_VARIABLES),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SetupError(f"Kafka could not set up its data folder in {folder.parent}: {''.join(reason)}")
