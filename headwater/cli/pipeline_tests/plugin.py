"""Adds the command to `headwater`.

The module imports nothing else of the package, so that the help of all commands is printed fast.
"""

from collections.abc import Mapping, Sequence
from typing import Final

NAME: Final = "test"


class TestCommand:
    """Adds the command `test` to `headwater`, by the entry point group `headwater.commands`."""

    help_texts: Mapping[str, str] = {
        NAME: "Run the test cases of the pipelines in a folder, in the sandbox and without a server."
    }

    def takes(self, arguments: Sequence[str]) -> bool:
        """Return whether these arguments are for the command."""
        return arguments[:1] == [NAME]

    def run(self, arguments: Sequence[str]) -> None:
        """Run the command, and end the process with its exit status."""
        from headwater.cli.pipeline_tests.command import run

        run(arguments[1:])


PLUGIN: Final = TestCommand()
