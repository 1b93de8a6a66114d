"""Where each stream is, by the settings."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headwater.brokers.security import security_settings
from headwater.errors import SetupError, reason_of
from headwater.model import kafka_security
from headwater.model.binding import Bindings, KafkaTopic, binding_name, parse_bindings
from headwater.model.stream import CATALOG, find_chain
from headwater.settings import Settings

PUBSUB_CLIENT = "google.pubsub_v1"
_UNUSABLE = "The stream bindings in {} can't be used:"


def load_bindings(settings: Settings) -> Bindings:
    """The bindings of the settings' file, or the default ones. Raises SetupError when the file is not usable."""
    path = settings.stream_bindings
    if path is None:
        return Bindings()
    try:
        document = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SetupError(f"The stream bindings in {path} can't be read: {reason_of(error)}.") from error
    try:
        bindings = parse_bindings(_with_files(document, path))
    except ValidationError as error:
        raise SetupError(f"{_UNUSABLE.format(path)} {_faults(error)}.") from None
    _require_client(bindings)
    for access in bindings.clusters():
        security_settings(access)  # raises SetupError when a package is missing
    return bindings


def _with_files(document: object, path: Path) -> object:
    """Read the files of secrets that bindings name, relative to the folder of the bindings' own file."""
    if not isinstance(document, dict):
        return document
    return {name: _with_files_of(name, binding, path) for name, binding in document.items()}


def _with_files_of(name: str, binding: Any, path: Path) -> Any:
    match binding:
        case {"kafka": {**members}}:
            return {**binding, "kafka": _with_secrets(members, path, f"{_UNUSABLE.format(path)} {name}, kafka,")}
        case {"pubsub": {"credentials_file": str(file), **others}}:
            where = f"{_UNUSABLE.format(path)} {name}, pubsub, credentials_file:"
            found = path.parent.absolute() / Path(file).expanduser()
            _read(found, where)
            return {**binding, "pubsub": others | {"credentials_file": str(found)}}
    return binding


def _with_secrets(members: dict[Any, Any], path: Path, where: str) -> dict[str, Any]:
    """The members of a Kafka cluster: those that are secrets as they are in their files, paths as absolute ones."""
    found = dict(members)
    for secret in kafka_security.SECRETS:
        name = f"{secret}_file"
        if isinstance(found.get(name), str):  # the check of the members refuses all else
            if secret in found:
                raise SetupError(f"{where} {name}: give {secret} or {name}, and not both.")
            found[secret] = _read(path.parent / Path(found.pop(name)).expanduser(), f"{where} {name}:").strip()
    for member in kafka_security.FILES:
        if isinstance(found.get(member), str) and found[member]:
            file = path.parent.absolute() / Path(found[member]).expanduser()
            _read(file, f"{where} {member}:")
            found[member] = str(file)
    return found


def _read(file: Path, where: str) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{where} {error}.") from error


def _faults(error: ValidationError) -> str:
    """Where in the file each fault is, and what it is. A binding that is no string is taken for an object."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    objects = [fault for fault in faults if "str" not in fault["loc"]] or faults
    return "; ".join(
        f"{_place(fault['loc']) or 'the file'}: {fault['msg'].removeprefix('Value error, ')}" for fault in objects
    )


def _place(steps: Sequence[str | int]) -> str:
    """The members of the file on the way to a fault: pydantic notes which form it tried, too."""
    return ", ".join(str(step) for step in steps if step not in ("str", "[key]") and "_Elsewhere" not in str(step))


def _require_client(bindings: Bindings) -> None:
    """Raises SetupError when streams come from Pub/Sub and its client is not installed."""
    if bindings.pubsub() and not _is_installed(PUBSUB_CLIENT):
        raise SetupError(
            "Streams are bound to Pub/Sub, and its client is not installed: `.venv/bin/pip install -e '.[pubsub]'`."
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def stream_topic(bindings: Bindings, chain: str, stream: str) -> str:
    """The own topic of `<entity>` or `<entity>.zerolag`. Raises SetupError when there is none."""
    entity, _, zerolag = stream.partition(".")
    binding = bindings.of(chain, entity, zerolag=bool(zerolag))
    if binding is None:
        raise SetupError(unknown_stream(chain, entity, zerolag=bool(zerolag)))
    topic = bindings.topic(chain, entity, zerolag=bool(zerolag))
    if topic is None:
        where = "another Kafka cluster" if isinstance(binding, KafkaTopic) else "Pub/Sub"
        raise SetupError(
            f"{chain}.{stream} is bound to {where} ({binding_name(binding)}), where others write to it: "
            "feed it there, or bind the stream to a topic of Headwater's own cluster."
        )
    return topic


def zerolag_topic(bindings: Bindings, chain: str, stream: str) -> str:
    """The topic of `<entity>.zerolag`; one that is not bound has the name that it would have by default.

    Raises SetupError when it is bound to a place of others.
    """
    entity, _, _ = stream.partition(".")
    if bindings.of(chain, entity, zerolag=True) is None:
        return f"stream.{chain}.{stream}"
    return stream_topic(bindings, chain, stream)


def unknown_stream(chain: str, entity: str, *, zerolag: bool) -> str:
    """Why a stream has no topic."""
    found = find_chain(chain)
    if found is None:
        return f"There is no chain {chain}. Choose from {', '.join(c.name for c in CATALOG)}."
    if found.entity(entity) is None:
        return f"{chain} has no entity {entity}. Choose from {', '.join(e.name for e in found.entities)}."
    assert zerolag
    return f"The zerolag feed of {chain}.{entity} is not bound. Bind it in the file of HEADWATER_STREAM_BINDINGS."
