"""The command `headwater` as this distribution has it, without the commands of the server.

`main` runs it. The server's distribution adds its commands by an entry point of the group `headwater.commands`
(plugins.py). Modules with commands import rich and the client when a command runs, so that `headwater --help` is fast.
"""

import gc

DEFAULT_THRESHOLDS = gc.get_threshold()
gc.set_threshold(200_000)  # else the imports alone trigger dozens of collections

from headwater_client.cli.main import main  # noqa: E402

__all__ = ["main"]
