"""Pipelines as files: reads a folder, plans what would change on a server, and applies it.

`folder` reads a folder into the desired pipelines, `plan` compares them with what runs, `plan_text` prints the plan,
`apply` makes the changes, and `export` writes what runs into files. Files are bound to what runs by `external_id` and
by the names of transforms, so there is no local state.
"""
