"""The command line.

`application.app` is the typer application of all commands except `test`. Most modules define a group of commands, or
single ones. Commands import their implementation when they run, so that `headwater --help` starts fast. The command
`headwater` is in `headwater_client`. `commands.PLUGIN` adds the commands of `application.app` to it, and
`pipeline_tests.plugin.PLUGIN` adds `test`.
"""
