"""The dead letters of a pipeline: look at them, and send them through the pipeline again."""

from collections.abc import AsyncGenerator, Callable, Sequence

from headwater_client.call import path
from headwater_client.models.dead_letters import (
    DeadLetter,
    DeadLetterPage,
    LetterGroup,
    LetterSummary,
    Redrive,
    StartedRedrive,
)
from headwater_client.operations import Asynchronous, Synchronous, iteration, operation
from headwater_client.resources.base_resource import Resource
from headwater_client.session import Session
from headwater_client.upload import reporter

POLL_S = 0.5


class DeadLettersOperations(Resource):
    """The dead letters of a pipeline."""

    def __init__(self, session: Session, config_id: str) -> None:
        super().__init__(session)
        self._config_id = config_id

    @iteration
    async def list(
        self,
        *,
        error: str | None = None,
        transform: str | None = None,
        page_size: int = 100,
        timeout: float | None = None,
    ) -> AsyncGenerator[DeadLetter, None]:
        """Yield the dead letters, newest first.

        Args:
            error: Only letters with this class of error.
            transform: Only letters of this transform (its uid) or sink (its name).
            page_size: The number of letters in one request.
            timeout: The seconds to wait for each response.

        >>> for letter in flow.dead_letters.list(error="TypeError"):
        ...     print(letter.id, letter.error, letter.line)
        0/17 TypeError 3
        """
        query = {"error": error, "transform": transform, "limit": page_size}
        async for letter in self._items(self._path(), DeadLetterPage, query, timeout):
            yield letter

    @operation
    async def page(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        error: str | None = None,
        transform: str | None = None,
        timeout: float | None = None,
    ) -> DeadLetterPage:
        """Return one page of dead letters; `list()` yields all of them.

        >>> len(flow.dead_letters.page(limit=1).items)
        1
        """
        return await self._get(
            self._path(), DeadLetterPage, timeout, cursor=cursor, limit=limit, error=error, transform=transform
        )

    @operation
    async def summary(self, *, timeout: float | None = None) -> Sequence[LetterGroup]:
        """Return the counts of the dead letters by class and place of the error.

        >>> [(group.error, group.line, group.count) for group in flow.dead_letters.summary()]
        [('TypeError', 3, 1204)]
        """
        return (await self._get(self._path("summary"), LetterSummary, timeout)).items

    @operation
    async def count(
        self,
        *,
        ids: Sequence[str] | None = None,
        error: str | None = None,
        transform: str | None = None,
        timeout: float | None = None,
    ) -> int:
        """Return how many letters a redrive with these arguments would send.

        >>> flow.dead_letters.count(error="TypeError")
        1204
        """
        body = {**_selection(ids, error, transform), "dry_run": True}
        return (await self._post(self._path("redrive"), StartedRedrive, body, timeout)).requested

    @operation
    async def start_redrive(
        self,
        *,
        ids: Sequence[str] | None = None,
        error: str | None = None,
        transform: str | None = None,
        timeout: float | None = None,
    ) -> StartedRedrive:
        """Begin a redrive, and return its id and the number of letters.

        Without arguments it sends all letters that were not redriven yet.

        >>> flow.dead_letters.start_redrive(error="TypeError").requested
        1204
        """
        body = _selection(ids, error, transform)
        return await self._post(self._path("redrive"), StartedRedrive, body, timeout)

    @operation
    async def redrive_state(self, redrive_id: str, *, timeout: float | None = None) -> Redrive:
        """Return the state of a redrive.

        >>> flow.dead_letters.redrive_state("01ke0a2x8rv5c3m7qd9t4jw6j5").state
        'done'
        """
        return await self._get(path("flow", self._config_id, "redrives", redrive_id), Redrive, timeout)

    @operation
    async def redrive(
        self,
        *,
        ids: Sequence[str] | None = None,
        error: str | None = None,
        transform: str | None = None,
        progress: bool | Callable[[Redrive], None] = False,
        timeout: float | None = None,
    ) -> Redrive:
        """Send letters through the running revision, and wait for the end.

        Args:
            ids: These letters, also when they were redriven already.
            error: Letters with this class of error.
            transform: Letters of this transform (its uid) or sink (its name).
            progress: Called with the state twice per second; True writes it to standard error.
            timeout: The seconds to wait for each response; the redrive itself may last longer.

        >>> state = flow.dead_letters.redrive(error="TypeError")
        >>> state.delivered, state.failed
        (1203, 1)
        """
        body = _selection(ids, error, transform)
        started = await self._post(self._path("redrive"), StartedRedrive, body, timeout)
        report = reporter(progress)
        state_path = path("flow", self._config_id, "redrives", started.id)
        while (state := await self._get(state_path, Redrive, timeout)).state == "running":
            report(state)
            await self._session.io.sleep(POLL_S)
        report(state)
        return state

    def _path(self, *more: str) -> str:
        return path("flow", self._config_id, "dead-letters", *more)


def _selection(ids: Sequence[str] | None, error: str | None, transform: str | None) -> dict[str, object]:
    """Return the body that selects letters: those that the arguments name, or else all.

    The server refuses ids together with another argument.
    """
    named = {"ids": None if ids is None else list(ids), "error": error, "transform_uid": transform}
    return {name: value for name, value in named.items() if value is not None} or {"all": True}


class DeadLetters(DeadLettersOperations, Synchronous):
    """The dead letters of a pipeline."""


class AsyncDeadLetters(DeadLettersOperations, Asynchronous):
    """The dead letters of a pipeline, for asyncio."""
