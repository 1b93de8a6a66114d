"""The command line.

`application.app` is the typer application; each module defines a group of commands. Commands import their
implementation when they run, so that `headwater --help` starts fast. `entry.main` is the command `headwater`: it has
the commands of `headwater_client` too when that is installed.
"""
