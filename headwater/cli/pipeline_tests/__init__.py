"""The command `headwater test`.

The command runs the test cases of the pipelines in a folder, in the sandbox and without a server. `plugin` adds it to
`headwater`, `command` runs it, `pipeline_runs` passes records through the transforms of a pipeline, `comparison`
compares the outputs with the records that a case expects, and `explanation` says which transform dropped or passed a
record. `report` formats the results.
"""
