"""Quoted ticks in a real Valkey are folded, settled and read while workers are killed."""

import random
import time
from contextlib import closing

import pytest

from headwater.model.price import state
from headwater.model.price.tick import TICKS_PARTITIONS
from headwater.stores.redis.client import connect
from headwater.stores.redis.prices import RedisPrices
from tests.unit.prices import test_quoted_ticks as cases


@pytest.mark.parametrize("many", [20, 1024])
def test_a_day_of_quoted_trade(valkey_url: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ARCHIVE_ABOVE_TICKS", many)
    monkeypatch.setattr(cases, "START", int(time.time() * 1000))  # data that cannot be read any more expires
    draw = random.Random(many)
    with closing(connect(valkey_url)) as client:
        worker, ticks = cases.Worker(RedisPrices(client)), cases.day_of_trade(draw, 600)
        for at in range(0, len(ticks), 60):
            worker.now = max(fed.tick[0] for fed in ticks[at : at + 60])
            worker.feed(draw.sample(ticks[at : at + 60], len(ticks[at : at + 60])))
            if draw.random() < 0.5:
                worker.read()
                worker.start()  # the worker is killed before it has stored anything
            worker.store_all()
            worker.check()
        worker.start()
        worker.settle()
        worker.check()
        assert not any(worker.store.unsettled(partition) for partition in range(TICKS_PARTITIONS))
