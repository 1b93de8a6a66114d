"""Implements `headwater doctor`. Each finding says what is wrong and what to do."""

from collections.abc import Callable, Iterable, Sequence

from headwater.app.database import installation_database
from headwater.settings import Settings
from headwater.stores.sql.database import Database
from headwater.stores.sql.unreadable import UnreadableRow

Check = Callable[[Database], Iterable[UnreadableRow]]
CHECKS: tuple[Check, ...] = (Database.unreadable,)


def examine(settings: Settings) -> Sequence[UnreadableRow]:
    """Run all checks and return their findings.

    Raises SetupError when there is no installation, or when its database can't be opened.
    """
    with installation_database(settings, check_key=False) as database:
        return [finding for check in CHECKS for finding in check(database)]
