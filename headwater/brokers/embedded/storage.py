"""Formats Kafka's data folder once, with the administrator's credential in it."""

import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

from headwater.brokers.embedded.runtime import JVM_VARIABLES, KafkaRuntime
from headwater.children import inherited_environment
from headwater.errors import SetupError
from headwater.private_files import write_private

_TIMEOUT_S: Final = 120.0


def ensure_formatted(kafka_dir: Path, runtime: KafkaRuntime, credential: str) -> None:
    """Create the folder `data` in `kafka_dir` when the folder is missing.

    The folder is formatted as the file `server.properties` in `kafka_dir` describes. The folder is created under a
    temporary name and renamed when it is complete. `credential` is the value of `--add-scram` of kafka-storage. Raises
    SetupError.
    """
    data = kafka_dir / "data"
    if data.exists():
        return
    scratch = kafka_dir / "formatting"
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "tmp").mkdir(parents=True)
    shutil.copy(kafka_dir / "server.properties", scratch)
    write_private(scratch / "arguments", _arguments(credential))
    _run(runtime, scratch)
    (scratch / "data").rename(data)
    shutil.rmtree(scratch)


def _arguments(credential: str) -> str:
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return f"--cluster-id={cluster_id}\n--config\nserver.properties\n--add-scram\n{credential}\n"


def _run(runtime: KafkaRuntime, folder: Path) -> None:
    # The standard output contains the stored form of the password, so it is discarded.
    try:
        result = subprocess.run(
            runtime.formatter("arguments"),
            env=inherited_environment(*JVM_VARIABLES),
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(
            f"Kafka did not set up its data folder in {folder.parent} within {_TIMEOUT_S:g} s, perhaps because the "
            "machine is busy. Start it again."
        ) from error
    if result.returncode != 0:
        reason = result.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SetupError(f"Kafka could not set up its data folder in {folder.parent}: {''.join(reason)}")
