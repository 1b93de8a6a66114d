"""Commands that other distributions add.

A distribution names an object of the type `Plugin` by an entry point of the group `headwater.commands`.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Final, Protocol, cast

GROUP: Final = "headwater.commands"


class Plugin(Protocol):
    """Commands of another distribution.

    Attributes:
        help_texts: The help of each command in one line, by the command's name.
    """

    help_texts: Mapping[str, str]

    def takes(self, arguments: Sequence[str]) -> bool:
        """Return whether these arguments of the command line are for the plugin."""

    def run(self, arguments: Sequence[str]) -> None:
        """Run a command; it may end the process with an exit status."""


def plugins() -> list[Plugin]:
    """Return the installed plugins."""
    found: list[Any] = [point.load() for point in entry_points(group=GROUP)]
    return cast("list[Plugin]", found)
