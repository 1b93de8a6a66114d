"""The checks of `headwater doctor`; each finding says what is wrong and what to do."""

from collections.abc import Callable, Iterable, Sequence

from headwater.app.control import control_of
from headwater.settings import Settings
from headwater.stores.protocols.control import UnreadableRow
from headwater.stores.sql.database import Database

Check = Callable[[Database], Iterable[UnreadableRow]]
CHECKS: tuple[Check, ...] = (Database.unreadable,)


def examine(settings: Settings) -> Sequence[UnreadableRow]:
    """The findings of all checks. Raises SetupError when there is no installation, or it can't be opened at all."""
    with control_of(settings, check_key=False) as database:
        return [finding for check in CHECKS for finding in check(database)]
