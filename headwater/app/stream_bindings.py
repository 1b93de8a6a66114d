"""Loads the stream bindings from the file in the settings."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headwater.brokers.security import security_settings
from headwater.errors import SetupError, os_error_reason
from headwater.extras import require_extra
from headwater.model import kafka_security
from headwater.model.binding import Bindings, KafkaTopic, binding_name, parse_bindings
from headwater.model.stream import CATALOG, find_chain, stream_name
from headwater.settings import Settings

_INVALID_FILE = "The stream bindings in {} can't be used:"


def load_bindings(settings: Settings) -> Bindings:
    """Load the bindings from the file in the settings.

    Returns the default bindings when the settings name no file. Raises SetupError when the file is invalid.
    """
    path = settings.stream_bindings
    if path is None:
        return Bindings()
    try:
        document = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SetupError(f"The stream bindings in {path} can't be read: {os_error_reason(error)}.") from error
    try:
        bindings = parse_bindings(_with_files(document, path))
    except ValidationError as error:
        raise SetupError(f"{_INVALID_FILE.format(path)} {_faults(error)}.") from None
    if bindings.pubsub_accesses():
        require_extra("pubsub", "google.pubsub_v1", "A binding to Pub/Sub")
    for access in bindings.kafka_accesses():
        security_settings(access)  # raises SetupError when a package is missing
    return bindings


def _with_files(document: object, path: Path) -> object:
    """Return the document with secrets from files, and with absolute paths of other files.

    The content of the file in `<secret>_file` becomes the member `<secret>`. The paths are relative to the folder of
    the bindings' file. A file whose path stays in the document is read too, so that an unreadable file is a fault here.
    """
    if not isinstance(document, dict):
        return document
    return {name: _with_files_of(name, binding, path) for name, binding in document.items()}


def _with_files_of(name: str, binding: Any, path: Path) -> Any:
    match binding:
        case {"kafka": {**members}}:
            return {**binding, "kafka": _with_secrets(members, path, f"{_INVALID_FILE.format(path)} {name}, kafka,")}
        case {"pubsub": {"credentials_file": str(file), **members}}:
            where = f"{_INVALID_FILE.format(path)} {name}, pubsub, credentials_file:"
            absolute = path.parent.absolute() / Path(file).expanduser()
            _read(absolute, where)
            return {**binding, "pubsub": members | {"credentials_file": str(absolute)}}
    return binding


def _with_secrets(members: dict[Any, Any], path: Path, where: str) -> dict[str, Any]:
    """Return the members of a Kafka binding with secrets from files and absolute paths.

    Args:
        members: The members of the binding.
        path: The file of the bindings.
        where: The beginning of error messages.
    """
    complete = dict(members)
    for secret in kafka_security.SECRET_FIELDS:
        name = f"{secret}_file"
        if isinstance(complete.get(name), str):  # other types are rejected when the members are validated
            if secret in complete:
                raise SetupError(f"{where} {name}: give {secret} or {name}, and not both.")
            complete[secret] = _read(path.parent / Path(complete.pop(name)).expanduser(), f"{where} {name}:").strip()
    for member in kafka_security.FILE_FIELDS:
        if isinstance(complete.get(member), str) and complete[member]:
            file = path.parent.absolute() / Path(complete[member]).expanduser()
            _read(file, f"{where} {member}:")
            complete[member] = str(file)
    return complete


def _read(file: Path, where: str) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{where} {error}.") from error


def _faults(error: ValidationError) -> str:
    """Return the place and the message of each fault in the file.

    pydantic reports faults for both forms of a binding, a string and an object. The faults of the string form are
    omitted, unless all faults are of the string form.
    """
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [fault for fault in faults if "str" not in fault["loc"]] or faults
    return "; ".join(
        f"{_place(fault['loc']) or 'the file'}: {fault['msg'].removeprefix('Value error, ')}" for fault in shown
    )


def _place(steps: Sequence[str | int]) -> str:
    """Return the path of a fault in the file, without the names that pydantic inserts."""
    return ", ".join(
        str(step) for step in steps if step not in ("str", "[key]") and "_ExternalBinding" not in str(step)
    )


def stream_topic(bindings: Bindings, chain: str, entity: str, *, zerolag: bool = False) -> str:
    """Return the topic of a stream on the installation's own cluster.

    Raises SetupError when the stream is not bound to a topic of this cluster.
    """
    binding = bindings.find(chain, entity, zerolag=zerolag)
    if binding is None:
        raise SetupError(_no_binding(chain, entity, zerolag=zerolag))
    topic = bindings.installation_topic(chain, entity, zerolag=zerolag)
    if topic is None:
        where = "another Kafka cluster" if isinstance(binding, KafkaTopic) else "Pub/Sub"
        name = stream_name(chain, entity, zerolag=zerolag)
        raise SetupError(
            f"{name} is bound to {where} ({binding_name(binding)}), so Headwater does not write to it. Write "
            "the records there, or bind the stream to a topic of Headwater's own Kafka cluster."
        )
    return topic


def zerolag_topic(bindings: Bindings, chain: str, entity: str) -> str:
    """Return the topic to which an ingest writes a zerolag stream.

    The topic of an unbound zerolag stream is `stream.<chain>.<entity>.zerolag`.
    Raises SetupError when the stream is bound to another cluster or to Pub/Sub.
    """
    if bindings.find(chain, entity, zerolag=True) is None:
        return f"stream.{stream_name(chain, entity, zerolag=True)}"
    return stream_topic(bindings, chain, entity, zerolag=True)


def _no_binding(chain: str, entity: str, *, zerolag: bool) -> str:
    """Return why a stream has no binding."""
    catalog_chain = find_chain(chain)
    if catalog_chain is None:
        return f"There is no chain {chain}. Choose from {', '.join(each.name for each in CATALOG)}."
    if catalog_chain.entity(entity) is None:
        return f"{chain} has no entity {entity}. Choose from {', '.join(each.name for each in catalog_chain.entities)}."
    assert zerolag
    return (
        f"The zerolag stream {chain}.{entity}.zerolag is not bound. Bind it in the file of HEADWATER_STREAM_BINDINGS."
    )
