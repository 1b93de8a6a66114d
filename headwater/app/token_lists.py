"""Stores the tokens of imported Token Lists in the data directory."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from headwater.app.data_directory import DataDirectory
from headwater.model.listed_token import TokenListEntry
from headwater.recipes.tokens import Tokens, decode_tokens, encode_tokens, read_token_list
from headwater.record_files.record_file import read_content
from headwater.settings import Settings


def read_tokens(settings: Settings) -> Tokens:
    """Return the imported tokens, by chain and address."""
    path = DataDirectory(settings.data_dir).tokens
    return decode_tokens(path.read_bytes()) if path.exists() else {}


def add_tokens(settings: Settings, files: Iterable[Path]) -> Mapping[str, Mapping[str, TokenListEntry]]:
    """Add the tokens of Token List files. Returns all imported tokens.

    Later entries replace earlier entries of the same token.
    """
    tokens = read_tokens(settings)
    for file in files:
        for chain, listed in read_token_list(read_content(file)).items():
            tokens.setdefault(chain, {}).update(listed)
    data_directory = DataDirectory(settings.data_dir)
    data_directory.create()
    scratch = data_directory.tokens.with_suffix(".new")
    scratch.write_bytes(encode_tokens(tokens))
    scratch.replace(data_directory.tokens)
    return tokens
