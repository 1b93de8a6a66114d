"""The errors of files."""


class FolderError(Exception):
    """A file of the folder is wrong. The message names the file, what is wrong, and what to do."""
