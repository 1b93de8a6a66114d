"""Migrations of the schema. A released migration is never changed; add another one.

Migrations add tables and columns. SQLite rebuilds a table for other changes, and dropping the old table would delete
the rows of the tables that refer to it. In such a case add a new table instead.
"""
