"""The command `headwater test`.

It runs the cases beside pipelines in the sandbox, without a server. `plugin` adds the command to `headwater`, `command`
runs it, `pipeline_runs` passes records through the transforms of a pipeline, `comparison` compares the outputs with the
records that a case expects, and `explanation` says which transform dropped or passed a record. `report` prints the
results.
"""
