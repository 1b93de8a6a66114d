"""The imported Token Lists in the data directory, and readers of Token List files."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from headwater.app.data_directory import DataDirectory
from headwater.model.listed_token import ListedToken
from headwater.recipes import tokens as token_files
from headwater.recipes.tokens import Tokens
from headwater.record_files.record_file import read_lines
from headwater.settings import Settings


def read_tokens(settings: Settings) -> Tokens:
    """Return the imported tokens, by chain and address."""
    path = DataDirectory(settings.data_dir).tokens
    return token_files.decode(path.read_bytes()) if path.exists() else {}


def add_tokens(settings: Settings, files: Iterable[Path]) -> Mapping[str, Mapping[str, ListedToken]]:
    """Add the tokens of these lists.

    Later entries replace earlier ones. Returns all imported tokens.
    """
    tokens = read_tokens(settings)
    for file in files:
        for chain, found in token_files.read_list(read_file(file)).items():
            tokens.setdefault(chain, {}).update(found)
    data_directory = DataDirectory(settings.data_dir)
    data_directory.create()
    new = data_directory.tokens.with_suffix(".new")
    new.write_bytes(token_files.encode(tokens))
    new.replace(data_directory.tokens)
    return tokens


def read_file(file: Path) -> bytes:
    """Return the content of a file, unpacked and without a byte order mark.

    Raises SetupError when it is unreadable.
    """
    return b"\n".join(read_lines(file))
