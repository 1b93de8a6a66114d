"""Secrets of a running installation are only where they are needed.

No command line contains a secret, because all users of the machine can read command lines. Only the environments of
processes that need a secret contain it.
"""

import base64
import json
import secrets
from pathlib import Path

import pytest

from tests.acceptance.installation import ExternalServers, Installation, deployed, pipeline
from tests.support.processes import alive, descendants

SCRIPT = {"type": "v8", "script": "const process = (record) => record;"}


def environment_of(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")


def check(installation: Installation, hidden: dict[str, str], seen_by: dict[str, set[str]]) -> None:
    """Assert that no secret of `hidden` is in a command line.

    Environments must have only the secrets in `seen_by`.

    `seen_by` has the allowed secrets by a word of the command line.
    """
    assert installation.process is not None
    below = [each for each in descendants(installation.process.pid) if alive(each.pid)]
    commands = {word: [each.pid for each in below if word in each.command] for word in seen_by}
    assert all(commands.values()), commands
    for each in below:
        allowed = {name for word, names in seen_by.items() if each.pid in commands[word] for name in names}
        environment = environment_of(each.pid)
        assert environment or "deno" in each.command
        for name, secret in hidden.items():
            assert secret not in each.command, (name, each.command)
            assert name in allowed or secret not in environment, (name, each.command)


def own_secret_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


@pytest.mark.long
def test_embedded_servers_and_workers_have_no_secrets(own_installation: Installation, tmp_path: Path) -> None:
    """One of the processes is an ingest that waits for its node."""
    token = secrets.token_hex(16)
    entry = {"type": "evm", "chain": "base", "rpc": "$NODE", "poll_s": 1}
    (tmp_path / "ingests.json").write_text(json.dumps({"the-chain": entry}))
    hidden = {"key": own_secret_key(), "token": secrets.token_hex(16), "node": f"http://127.0.0.1:1/{token}"}
    own_installation.flags = ("--ingests", str(tmp_path / "ingests.json"))
    own_installation.variables = {
        "HEADWATER_SECRET_KEY": hidden["key"],
        "HEADWATER_API_KEY": hidden["token"],
        "NODE": hidden["node"],
    }
    own_installation.start()
    hidden["user"] = own_installation.key
    if own_installation.external is None:
        hidden["kafka"] = (own_installation.data_dir / "kafka" / "admin-password").read_text()
    with own_installation.client() as client, deployed(client, pipeline(transforms=[SCRIPT])) as deployment:
        hidden["reader"] = deployment.sink["password"]
        seen_by: dict[str, set[str]] = {
            "headwater controller": {"key"},
            "headwater api": {"key"},
            "ingest run the-chain": {"node"},
            "worker_main": set(),
            "deno run": set(),
            "prices worker": set(),
        }
        check(own_installation, hidden, seen_by)


@pytest.mark.long
def test_secrets_of_external_servers_are_read_from_files(tmp_path: Path) -> None:
    """If every secret is in a file, no environment of a process contains a secret.

    This includes the environment of the parent.
    """
    parts = ExternalServers(tmp_path / "external")
    try:
        installation = Installation(tmp_path / "data")
        for name, value in (parts.settings | {"HEADWATER_SECRET_KEY": own_secret_key()}).items():
            if name.endswith(("_URL", "_KEY", "_PASSWORD")):
                (tmp_path / name).write_text(value + "\n")
                installation.variables[f"{name}_FILE"] = str(tmp_path / name)
            else:
                installation.variables[name] = value
        installation.start()
        hidden = {
            name: Path(path).read_text().strip() for name, path in installation.variables.items() if "_FILE" in name
        }
        assert len(hidden) == 4
        with installation.client() as client, deployed(client, pipeline(transforms=[SCRIPT])):
            assert installation.process is not None
            assert not [secret for secret in hidden.values() if secret in environment_of(installation.process.pid)]
            check(installation, hidden, {"headwater controller": set(), "headwater api": set(), "worker_main": set()})
        assert installation.stop() == 0
    finally:
        parts.stop()
