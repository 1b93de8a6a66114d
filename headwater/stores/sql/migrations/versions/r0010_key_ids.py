"""Raises the revision, so that older versions refuse the database.

They can't decrypt passwords with a key id.
"""

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table.

    Since this revision, encrypted passwords begin with the id of their key, which older versions of Headwater do not
    know. An older version refuses to start on a database with a newer schema.
    """


def downgrade() -> None:
    """Change no table. Passwords that were encrypted since keep their key id."""
