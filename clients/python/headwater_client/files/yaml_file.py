"""Reads and writes YAML files.

true, false, null and decimal numbers are read as in the core schema of YAML 1.2. All other scalars are texts: `0x8335`,
`no` and `007`, and also `1e6` and `.5`. To get these two as numbers, write `1.0e6` and `0.5`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from headwater_client.files.errors import FolderError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LITERAL_MEMBERS: Final = frozenset({"script", "expr"})
"""Members in whose text `${…}` stays as it is, because scripts and expressions have a meaning of their own for it."""
_VARIABLE: Final = re.compile(r"\$(?:\$\{|\{([^}:]*)(?::-([^}]*))?\})")


class _Loader(_Base):  # type: ignore[misc]  # the class of an untyped library
    """Loads scalars by YAML 1.2, and refuses repeated keys."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                key_node.tag, key = "tag:yaml.org,2002:str", key_node.value
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is repeated", key_node.start_mark)
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)(?:[eE][-+]?[0-9]+)?", "-+0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


def load(path: Path) -> dict[str, Any]:
    """Return the mapping in a file. Raises FolderError."""
    try:
        document = yaml.load(path.read_text("utf-8"), _Loader)  # noqa: S506 - a subclass of the safe loader
    except (OSError, UnicodeDecodeError) as error:
        raise FolderError(f"{path.name} can't be read: {error}.") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise FolderError(f"{path.name}, line {line}: {error.problem or error.context}.") from error
    except yaml.YAMLError as error:
        raise FolderError(f"{path.name} is not YAML: {error}.") from error
    if not isinstance(document, dict):
        raise FolderError(f"{path.name} must contain a mapping with members such as `source:`.")
    return document


def substitute(document: Any, variables: Mapping[str, str], file_name: str) -> Any:
    """Return a document in which `${NAME}` and `${NAME:-default}` are replaced in all texts.

    `$${` stands for `${`. Texts of scripts and expressions stay as they are. Raises FolderError for an unknown
    variable.

    >>> substitute({"url": "${A}/${B:-x}", "price": "$${A}"}, {"A": "1"}, "f")
    {'url': '1/x', 'price': '${A}'}
    """

    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        if name is None:
            return "${"
        value = variables.get(name, default)
        if value is None:
            raise FolderError(
                f"{file_name}: the variable {name} is not set. Set it in the environment or under `variables:` of "
                f"headwater.yaml, or write ${{{name}:-default}}."
            )
        return value

    if isinstance(document, str):
        return _VARIABLE.sub(value_of, document)
    if isinstance(document, list):
        return [substitute(item, variables, file_name) for item in document]
    if isinstance(document, dict):
        return {
            key: value
            if key in _LITERAL_MEMBERS and isinstance(value, str)
            else substitute(value, variables, file_name)
            for key, value in document.items()
        }
    return document


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # the class of an untyped library
    """Indents lists, and writes texts of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:  # noqa: ARG002
        return super().increase_indent(flow, False)


def _represent_text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def dump(document: Mapping[str, Any]) -> str:
    """Return a document as YAML.

    >>> print(dump({"tags": ["a"], "start_at": "latest"}), end="")
    tags:
      - a
    start_at: latest
    """
    text: str = yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text
