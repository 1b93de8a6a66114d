"""The command line.

`application.app` is the typer application; each module defines a group of commands. Commands import their
implementation when they run, so that `headwater --help` starts fast. The command `headwater` is in `headwater_client`;
`commands.PLUGIN` adds the commands of this package to it.
"""
