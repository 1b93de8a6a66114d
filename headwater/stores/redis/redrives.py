"""The outcomes of redriven letters in Valkey or Redis.

All keys of a deployment share one hash tag, so that one script can write all of them.

{dm:ID}:redrive:NUMBER      hash    one redrive: the count of each outcome by its character, `finished`, and `yields`
                                    (an older name), which is 1 while the redrive is throttled
{dm:ID}:redriven:PARTITION  hash    the outcomes of the letters of a partition, in blocks of LETTERS_PER_BLOCK offsets:
                                    the field is the number of the block, and the value has an entry for each offset
{dm:ID}:redrives            set     the suffixes of the keys of the letters, by which `drop` finds them

An entry is the character of the outcome, the time in seconds and the number of the redrive. The character of an outcome
that was stored before its transaction was committed is in upper case. All keys expire some time after the last write,
when Kafka has long removed the letters.
"""

import struct
from collections import defaultdict
from collections.abc import Collection, Mapping

from headwater.model.dead_letter import LetterId, RedriveOutcome
from headwater.model.redrive import LetterOutcome, LetterOutcomes, RedriveCounts, RedriveProgress
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument

LETTERS_PER_BLOCK = 1_024
TTL_MS = 40 * 24 * 3600 * 1000
ENDED_TTL_MS = 600 * 1000
"""How long the counts of a redrive stay after its end is stored, for responses that began before."""
BLOCKS_PER_CALL = 64
"""How many blocks one script changes, so that it does not block the server for long."""
_ENTRY = struct.Struct(">cIH")
_ENTRY_SUFFIX = struct.Struct(">IH")
"""The time and the number of an entry, which follow the character of the outcome."""
_MAX_NUMBER = 1 << 16
_NO_OUTCOME = 0
_CHARACTERS: dict[RedriveOutcome, bytes] = {"delivered": b"d", "dropped": b"r", "failed": b"f"}
_OUTCOMES = {character: outcome for outcome, character in _CHARACTERS.items()}
_RECORD = Script.load("record_redrive")


class RedisRedriveOutcomes:
    """Implements RedriveOutcomeStore on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def record(
        self, deployment_id: str, number: int, outcomes: LetterOutcomes, now_s: int, *, in_transaction: bool = False
    ) -> bool:
        """See RedriveOutcomeStore."""
        blocks = list(_blocks(outcomes).items())
        entry_suffix = _ENTRY_SUFFIX.pack(now_s, number % _MAX_NUMBER)
        is_throttled = False
        # The script also runs without outcomes, because it returns whether the redrive is throttled.
        for first in range(0, len(blocks) or 1, BLOCKS_PER_CALL):
            keys = [_key(deployment_id, _redrive_suffix(number)), _key(deployment_id, "redrives")]
            args: list[Argument] = [TTL_MS, entry_suffix, LETTERS_PER_BLOCK]
            for (partition, block), characters in blocks[first : first + BLOCKS_PER_CALL]:
                keys.append(_key(deployment_id, _letters_suffix(partition)))
                args += [_letters_suffix(partition), block, bytes(characters.upper() if in_transaction else characters)]
            is_throttled = self._client.run(_RECORD, keys, args) == b"1"
        return is_throttled

    def outcomes(self, deployment_id: str, letters: Collection[LetterId]) -> Mapping[LetterId, LetterOutcome]:
        """See RedriveOutcomeStore."""
        by_block: dict[tuple[int, int], list[LetterId]] = defaultdict(list)
        for letter in letters:
            by_block[letter.partition, letter.offset // LETTERS_PER_BLOCK].append(letter)
        commands = [("HGET", _key(deployment_id, _letters_suffix(partition)), block) for partition, block in by_block]
        replies = self._client.pipeline(commands) if commands else []
        found = {
            letter: _outcome(reply, letter.offset % LETTERS_PER_BLOCK)
            for reply, in_block in zip(replies, by_block.values(), strict=True)
            if reply is not None
            for letter in in_block
        }
        return {letter: outcome for letter, outcome in found.items() if outcome is not None}

    def progress(self, deployment_id: str, number: int) -> RedriveProgress:
        """See RedriveOutcomeStore."""
        (reply,) = self._client.pipeline([("HGETALL", _key(deployment_id, _redrive_suffix(number)))])
        fields: dict[bytes, bytes] = dict(zip(reply[::2], reply[1::2], strict=True))
        counts = {outcome: int(fields.get(character, 0)) for outcome, character in _CHARACTERS.items()}
        return RedriveProgress(RedriveCounts(**counts), b"finished" in fields)

    def finish(self, deployment_id: str, number: int) -> None:
        """See RedriveOutcomeStore."""
        self._set(deployment_id, number, "finished", 1)

    def expire_progress(self, deployment_id: str, number: int) -> None:
        """See RedriveOutcomeStore."""
        self._client.call("PEXPIRE", _key(deployment_id, _redrive_suffix(number)), ENDED_TTL_MS)

    def set_throttled(self, deployment_id: str, number: int, *, is_throttled: bool) -> None:
        """See RedriveOutcomeStore."""
        self._set(deployment_id, number, "yields", int(is_throttled))

    def _set(self, deployment_id: str, number: int, field: str, value: int) -> None:
        key = _key(deployment_id, _redrive_suffix(number))
        self._client.pipeline([("HSET", key, field, value), ("PEXPIRE", key, TTL_MS)])

    def drop(self, deployment_id: str) -> None:
        """See RedriveOutcomeStore."""
        index = _key(deployment_id, "redrives")
        (suffixes,) = self._client.pipeline([("SMEMBERS", index)])
        self._client.call("UNLINK", index, *(_key(deployment_id, suffix.decode()) for suffix in suffixes))


def _key(deployment_id: str, suffix: str) -> str:
    return f"{{dm:{deployment_id}}}:{suffix}"


def _redrive_suffix(number: int) -> str:
    return f"redrive:{number}"


def _letters_suffix(partition: int) -> str:
    return f"redriven:{partition}"


def _blocks(outcomes: LetterOutcomes) -> dict[tuple[int, int], bytearray]:
    """Return the characters of the outcomes in each block, by partition and block."""
    blocks: dict[tuple[int, int], bytearray] = {}
    for (partition, offset), outcome in outcomes.items():
        number, position = divmod(offset, LETTERS_PER_BLOCK)
        characters = blocks.setdefault((partition, number), bytearray(LETTERS_PER_BLOCK))
        characters[position] = ord(_CHARACTERS[outcome])
    return blocks


def _outcome(block: bytes, position: int) -> LetterOutcome | None:
    entry = block[position * _ENTRY.size : (position + 1) * _ENTRY.size]
    if entry[0] == _NO_OUTCOME:
        return None
    character, time_s, number = _ENTRY.unpack(entry)
    return LetterOutcome(_OUTCOMES[character.lower()], time_s, number, in_transaction=character.isupper())
