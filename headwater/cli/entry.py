"""The command `headwater`."""

import sys
from importlib import import_module
from importlib.util import find_spec

from headwater.cli.commands import PLUGIN

CLIENT = "headwater_client.cli"


def main() -> None:
    """Run the command line of this package, or of the client when it is installed.

    A command of this package is run without the client, because a process of the server needs none.
    """
    arguments = sys.argv[1:]
    if PLUGIN.takes(arguments):
        PLUGIN.run(arguments)
    elif find_spec("headwater_client") and find_spec(CLIENT):
        import_module(CLIENT).main()
    else:
        from headwater.cli.application import app

        if arguments and not arguments[0].startswith("-"):
            print("Commands for users are in the client: pip install 'headwater-client[cli]'", file=sys.stderr)
        app()
