"""Selects the dead letters that a redrive processes.

In this module, dead letters are called letters.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from headwater.errors import RedisUnavailable
from headwater.model.dead_letter import LetterHeaders, LetterId, is_stub_value
from headwater.model.outputs import OUTPUT_ID_HEADER
from headwater.model.redrive import LetterOutcome, RedriveSpec
from headwater.sources.base import Positions
from headwater.stores.protocols.redrives import RedriveOutcomeStore

log = structlog.get_logger(__name__)

MAX_REMEMBERED_RECORDS: Final = 50_000
"""How many source records the selector remembers, to recognize further letters of the same record."""

_RecordKey = tuple[int, bytes]
"""The partition of the letters of a source record, and the id of the record."""


class DeadLetterSelector:
    """Selects the letters that a redrive processes.

    A record has a letter for each of its outputs that failed, and each letter contains the whole record. So only the
    first of them is selected. The others are its repeats, and get its outcome. A stub, which is a letter without its
    source record because the dead-letter topic could not take the record, is never selected.

    A letter with an outcome of this redrive is left out, because its outputs are acknowledged. It is selected again
    when the outputs were in a transaction, which may have been aborted. Each outcome stores whether they were, because
    the delivery of the pipeline may have changed since.

    A letter with an outcome of an earlier redrive is left out, unless the user has selected it by its id.

    Args:
        deployment_id: The deployment.
        redrive: The redrive.
        store: The outcomes of letters.
    """

    def __init__(self, deployment_id: str, redrive: RedriveSpec, store: RedriveOutcomeStore) -> None:
        self._deployment_id = deployment_id
        self._redrive = redrive
        self._store = store
        self._selection = redrive.selection
        self._first_letters: dict[_RecordKey, LetterId] = {}
        """By source record, the letter with which this redrive processes it; the record seen last is at the end."""
        self._first_by_repeat: dict[LetterId, LetterId] = {}
        """By repeat that is not committed yet: the letter with which its source record is processed."""

    def select(
        self, letters: Sequence[LetterId], headers: Mapping[LetterId, LetterHeaders], values: Iterable[bytes | None]
    ) -> list[int]:
        """Return the rows of the letters to process, in order."""
        candidates = [
            row
            for row, (letter, value) in enumerate(zip(letters, values, strict=True))
            if self._selection.selects(letter, headers[letter])
            and not (headers[letter].is_stub or is_stub_value(value))
        ]
        outcomes = self._outcomes([letters[row] for row in candidates])
        return [row for row in candidates if self._is_to_process(letters[row], headers, outcomes.get(letters[row]))]

    def repeats(self, positions: Positions) -> dict[LetterId, LetterId]:
        """Return the repeats before these positions, each with the letter whose outcome it gets."""
        return {
            repeat: first
            for repeat, first in self._first_by_repeat.items()
            if repeat.offset < positions.get(repeat.partition, 0)
        }

    def forget(self, positions: Positions) -> None:
        """Forget the repeats before these positions, whose commit has begun.

        If the commit fails, the source repeats the commit, or the letters are read again.
        """
        for letter in self.repeats(positions):
            del self._first_by_repeat[letter]

    def _is_to_process(
        self, letter: LetterId, headers: Mapping[LetterId, LetterHeaders], outcome: LetterOutcome | None
    ) -> bool:
        """Return whether a letter with this outcome must be processed."""
        if outcome is not None and outcome.number != self._redrive.number and self._selection.ids is None:
            return False
        first = self._first_letter(letter, headers[letter])
        if first != letter:
            self._first_by_repeat[letter] = first
            return False
        return outcome is None or outcome.number != self._redrive.number or outcome.in_transaction

    def _first_letter(self, letter: LetterId, headers: LetterHeaders) -> LetterId:
        """Return the letter with which this redrive processes the source record of a letter."""
        record = letter.partition, source_id(headers)
        if not record[1]:
            return letter
        first = min(letter, self._first_letters.pop(record, letter))
        self._first_letters[record] = first
        if len(self._first_letters) > MAX_REMEMBERED_RECORDS:
            del self._first_letters[next(iter(self._first_letters))]
        return first

    def _outcomes(self, letters: list[LetterId]) -> dict[LetterId, LetterOutcome]:
        """Return the outcomes of letters, however long the store takes to answer.

        The letters are fetched already. If the worker waits here too long, it loses its partitions, and their next
        owner reads the letters again.
        """
        while True:
            try:
                return dict(self._store.outcomes(self._deployment_id, letters))
            except RedisUnavailable as error:
                log.warning("a redrive waits for Valkey or Redis", reason=error.detail)
                time.sleep(1.0)


def source_id(headers: LetterHeaders) -> bytes:
    """Return the id of the source record.

    It is the header OUTPUT_ID_HEADER without the index of the output.
    """
    return headers.text(OUTPUT_ID_HEADER).rpartition("/")[0].encode()
