"""Schema migrations. Add tables and columns; a released migration is never changed.

On SQLite, rebuilding a table that others refer to would cascade into them: add a new table instead.
"""
