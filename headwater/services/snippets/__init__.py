"""Complete programs with credentials that read a sink's topic, for deploy responses.

Each program joins the suggested consumer group, reads committed records only, drops duplicates by the header
`headwater-src` and prints one record per line. The Python, Node and Java programs end after the number of records in
the environment variable HEADWATER_MAX_RECORDS, when it is set.

The templates are the files beside this module. `@name@` stands for a value as a literal of the language; the lines
between `@login@` and `@end@` are omitted where readers do not log in.

The templates of the standard library are not used, because the programs contain `$` and `{}`.
"""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources

TEMPLATES = {
    "python": "read_topic.py.txt",
    "node": "read_topic.js",
    "java": "ReadTopic.java",
    "kcat": "read_topic.sh",
}
"""The file of each language's template."""

_LOGIN_LINES = re.compile(r"^@login@\n(.*?)^@end@\n", re.DOTALL | re.MULTILINE)
_LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConnection:
    """How a user reads one topic. Without a username the programs do not log in."""

    topic: str
    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str | None
    username: str | None
    password: str | None = field(repr=False)
    consumer_group: str


def snippets(connection: TopicConnection) -> dict[str, str]:
    """Return the programs by language: python, node, java, kcat."""
    values = asdict(connection)
    values["ssl"] = connection.security_protocol.endswith("SSL")
    values["brokers"] = connection.bootstrap_servers.split(",")
    has_login = connection.username is not None
    if has_login:
        values["mechanism"] = str(connection.sasl_mechanism).lower()
        values["jaas"] = (
            f"org.apache.kafka.common.security.{_LOGIN_MODULES[str(connection.sasl_mechanism)]} required "
            f"username={json.dumps(connection.username)} password={json.dumps(connection.password)};"
        )
    return {
        language: _fill(
            _LOGIN_LINES.sub(r"\1" if has_login else "", _template(file)), values, LITERALS.get(language, json.dumps)
        )
        for language, file in TEMPLATES.items()
    }


@cache
def _template(file: str) -> str:
    return resources.files(__name__).joinpath(file).read_text("utf-8")


def _fill(template: str, values: dict[str, object], literal: Callable[[object], str]) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", literal(value))
    return template


def _shell_word(value: object) -> str:
    return shlex.quote(str(value))


LITERALS: dict[str, Callable[[object], str]] = {"kcat": _shell_word}
"""The functions that write a value as a literal, by language; other languages use JSON.

A shell expands `$` inside of JSON's double quotes.
"""
