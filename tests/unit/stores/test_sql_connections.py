"""URLs of databases."""

import pytest

from headwater.errors import SetupError
from headwater.stores.sql.connections import make_engine


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "can't be read"),
        ("headwater.db", "can't be read"),
        ("mysql://localhost/headwater", "can't use a mysql database"),
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
    ],
)
def test_refused(url: str, sentence: str) -> None:
    with pytest.raises(SetupError, match=sentence):
        make_engine(url)
