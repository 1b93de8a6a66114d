"""The plugin by which the client's `headwater` also runs the commands of the server.

The module imports nothing else of the package, so that the help of all commands is printed fast.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

SERVER_PRICES_COMMANDS: Final = ("worker", "enable", "import")
"""The commands of the group `prices` that this package has; the other ones are in the client."""
SERVER: Final = "server"
"""A group with all commands of `application.app`: `headwater server keys list` is `headwater keys list`."""

HELP_TEXTS: Final[Mapping[str, str]] = {
    "up": "Start everything on this machine.",
    "demo": "Run a demo on a temporary installation.",
    "fetch": "Download the embedded Kafka into the cache.",
    "keys": "Create, list and revoke API keys, and rotate the secret key.",
    "replay": "Write records from files into a stream.",
    "docs": "Write the reference pages that are generated from the code.",
    SERVER: "All commands of the server and of this machine.",
}
"""The commands that the help shows; `headwater server` shows all."""
NAMES: Final = frozenset(
    {
        *HELP_TEXTS,
        *("abi", "api", "audit", "backup", "controller", "doctor", "ingest", "owners"),
        *("prices", "restore", "settings", "sweep", "tokens", "worker"),
    }
)


class ServerCommands:
    """Adds the server's commands to `headwater`, by the entry point group `headwater.commands`."""

    help_texts = HELP_TEXTS

    def takes(self, arguments: Sequence[str]) -> bool:
        """Return whether these arguments are for a command of this package."""
        if not arguments or arguments[0] not in NAMES:
            return False
        return arguments[0] != "prices" or (len(arguments) > 1 and arguments[1] in SERVER_PRICES_COMMANDS)

    def run(self, arguments: Sequence[str]) -> None:
        """Run a command."""
        from headwater.cli.application import app

        in_group = arguments[0] == SERVER
        sys.argv[0] = f"headwater {SERVER}" if in_group else "headwater"
        app(list(arguments[1:] if in_group else arguments), prog_name=sys.argv[0])


PLUGIN: Final = ServerCommands()
