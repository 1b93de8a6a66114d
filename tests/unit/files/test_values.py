"""Values in files have the digests of servers, and unchanged files are read once."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.value_sets import normalise
from headwater.stores.redis.sets import set_digest
from headwater_client.files import values as values_module
from headwater_client.files.values import DesiredValues, normalised, summarise


@given(st.lists(st.text(max_size=5)))
def test_values_and_digests_are_those_of_servers(texts: list[str]) -> None:
    stored = {normalise(text) for text in texts} - {""}
    assert set(normalised(texts)) == stored
    assert summarise(normalised(texts)).digest == set_digest.of_values(stored)


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "values.txt"
    file.write_text("A\n b \n\nb\n")
    os.utime(file, (1, 1))
    values = DesiredValues("replace", "values.txt", path=file)
    summary = values.summary()
    assert summary == summarise(["a", "b"])
    reader = Mock(side_effect=summarise)
    monkeypatch.setattr(values_module, "summarise", reader)
    monkeypatch.setattr(values_module, "_summaries", {})  # as in another process
    assert values.summary() == summary
    reader.assert_not_called()
    file.write_text("c\n")
    assert values.summary() == summarise(["c"])
    reader.assert_called_once()
