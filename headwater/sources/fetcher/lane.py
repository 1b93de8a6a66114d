"""The way from one broker: a thread that fetches the partitions that it leads."""

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError

from headwater.brokers.client import unavailable, unread, unreadable
from headwater.brokers.wire.codes import NO_ERROR, PASSING, described
from headwater.brokers.wire.connection import Connection, ConnectionLost, LoginRefused
from headwater.brokers.wire.fetch import UNKNOWN_EPOCH, Answer, Fetch, Fetched, Wanted
from headwater.brokers.wire.reading import Batch, Head, UnreadableBatch, batch, visible
from headwater.brokers.wire.requests import Address
from headwater.model.worker import KafkaAccess
from headwater.sources.fetcher.shelf import MAX_BYTES, Helper, Reading, Shelf, Stop

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
WAIT_S: Final = 0.5
"""How long a broker may wait for records: longer waits spare idle members, but what is assigned meanwhile waits too."""
ANSWER_BYTES: Final = 1 << 20
"""Of compressed batches in one answer. Larger ones took more memory and were no faster."""

Unpacked = tuple[Reading, Head, memoryview, int]
"""A batch as it came, and the offset from which on it is wanted."""


class Lane(Helper):
    """While the broker works on a request, the batches of the answer before it are unpacked."""

    def __init__(self, shelf: Shelf, access: KafkaAccess, topic: str, address: Address) -> None:
        super().__init__(shelf, f"fetcher-{address[0]}:{address[1]}")
        self._access = access
        self._topic = topic
        self._address = address
        self._connection: Connection | None = None
        self._came: list[Unpacked] = []
        self._turns = 0

    def disconnect(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.close()

    def _turn(self) -> bool:
        with self._shelf.lock:
            while not (due := self._due()) and not self._came:
                if self._shelf.closed:
                    return False
                self._shelf.changed.wait()
            asked = {reading.partition: (reading, self._wanted(reading)) for reading in due}
        try:
            if asked:
                self._ask([wanted for _, wanted in asked.values()])
            self._unpack()
            if asked:
                self._receive(asked)
        except (ConnectionLost, LoginRefused) as error:
            self._give_up(str(error))
        return True

    def _due(self) -> list[Reading]:
        """Each time another one comes first: what is behind may not fit into the answer."""
        shelf = self._shelf
        if shelf.closed or shelf.size >= MAX_BYTES:
            return []
        mine = [each for each in shelf.readings.values() if self._leads(each) and each.stop is None]
        self._turns += 1
        first = self._turns % len(mine) if mine else 0
        return mine[first:] + mine[:first]

    def _leads(self, reading: Reading) -> bool:
        return reading.leader is not None and reading.leader.address == self._address

    @staticmethod
    def _wanted(reading: Reading) -> Wanted:
        epoch = UNKNOWN_EPOCH if reading.leader is None else reading.leader.epoch
        return Wanted(reading.partition, epoch, reading.offset, reading.last_epoch)

    def _ask(self, wanted: Sequence[Wanted]) -> None:
        if self._connection is None:
            connection = Connection(self._access, *self._address, CONNECT_S)
            connection.wait_for(ANSWER_S)
            self._connection = connection
            if self._shelf.closed:  # meanwhile: nobody is there to end the wait
                raise ConnectionLost("the fetcher is closed")
        fetch = Fetch(self._topic, wanted, WAIT_S, max_bytes=ANSWER_BYTES, partition_max_bytes=ANSWER_BYTES)
        self._connection.send(fetch)

    def _receive(self, asked: dict[int, tuple[Reading, Wanted]]) -> None:
        assert self._connection is not None
        answer: Answer = self._connection.receive()
        if answer.error != NO_ERROR:
            raise ConnectionLost(f"the broker did not answer: error {answer.error}")
        for fetched in answer.partitions:
            reading, wanted = asked[fetched.partition]
            # Else a batch could not be unpacked meanwhile: it comes again, from here or from another broker.
            if reading.offset == wanted.offset and self._leads(reading):
                self._take(reading, fetched)

    def _take(self, reading: Reading, fetched: Fetched) -> None:
        """Note where the partition goes on, and keep the batches for `_unpack`."""
        if fetched.error != NO_ERROR:
            self._fail(reading, fetched.error)
        elif fetched.diverging is not None:
            self._halt(reading, Stop(reading.offset, fetched.diverging[1]))
        else:
            try:
                self._keep(reading, fetched)
            except UnreadableBatch as error:
                self._lose(reading, self._unreadable(reading, error))

    def _keep(self, reading: Reading, fetched: Fetched) -> None:
        if not fetched.records:
            reading.trouble = None
        for head, body in visible(fetched.records, fetched.aborted):
            if body is not None and head.next_offset > reading.offset:
                self._came.append((reading, head, body, reading.offset))
            if head.leader_epoch != reading.last_epoch:
                reading.epochs = (*reading.epochs, (reading.offset, head.leader_epoch))
            reading.offset, reading.last_epoch = max(reading.offset, head.next_offset), head.leader_epoch

    def _unpack(self) -> None:
        came, self._came = self._came, []
        failed: set[int] = set()
        for reading, head, body, offset in came:
            if id(reading) in failed:
                continue
            try:
                unpacked = batch(head, body, offset)
            except UnreadableBatch as error:
                failed.add(id(reading))
                reading.rewind(offset)
                self._lose(reading, self._unreadable(reading, error))
            else:
                self._put(reading, unpacked)

    def _put(self, reading: Reading, unpacked: Batch) -> None:
        reading.backoff.reset()
        reading.trouble = None
        with self._shelf.lock:
            if unpacked.columns.offsets:
                self._shelf.put(reading, unpacked)

    def _fail(self, reading: Reading, code: int) -> None:
        if code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._halt(reading, Stop(reading.offset))
        elif code in PASSING:
            self._lose(reading, self._unread(reading, described(code)), lasts=False)
        else:
            self._lose(reading, unavailable(KafkaError(code), self._access).detail)

    def _unread(self, reading: Reading, why: str) -> str:
        return unread(why, self._topic, reading.partition, self._access)

    def _unreadable(self, reading: Reading, error: UnreadableBatch) -> str:
        return unreadable(error, self._topic, reading.partition, self._access).detail

    def _halt(self, reading: Reading, stop: Stop) -> None:
        with self._shelf.lock:
            reading.stop = stop
            self._shelf.arrived.notify()

    def _lose(self, reading: Reading, why: str, *, lasts: bool = True) -> None:
        """Look for the leader again. What came before goes first: the next lane goes on behind it."""
        self._unpack()
        with self._shelf.lock:
            reading.lose(why, lasts=lasts)
            self._shelf.arrived.notify()
            self._shelf.changed.notify_all()

    def _give_up(self, why: str) -> None:
        """The connection is gone, and with it the answer."""
        self._unpack()
        self.disconnect()
        self._connection = None
        with self._shelf.lock:
            mine = [reading for reading in self._shelf.readings.values() if self._leads(reading)]
        for reading in mine:
            self._lose(reading, self._unread(reading, why), lasts=False)
