"""Fixtures with both clients, which the tests use in the same way."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headwater_client import AsyncHeadwater, Headwater
from headwater_client.model import Model
from tests.acceptance.installation import Installation


class InLoop:
    """Lets a test use an asynchronous object like a synchronous one."""

    def __init__(self, target: Any, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(getattr(self._target, name))

    def __getitem__(self, name: str) -> Any:
        return self._wrapped(self._target[name])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._target(*args, **kwargs)
        if inspect.iscoroutine(result):
            result = self._runner.run(result)
        return self._wrapped(result)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._wrapped(self._runner.run(anext(self._target)))
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> "InLoop":
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._target.aclose())

    def _wrapped(self, value: Any) -> Any:
        ours = type(value).__module__.startswith("headwater_client") and not isinstance(value, Model)
        return InLoop(value, self._runner) if ours or callable(value) or isinstance(value, AsyncIterator) else value


@pytest.fixture(params=["synchronous", pytest.param("asynchronous", marks=pytest.mark.long)])
def hw(request: pytest.FixtureRequest, installation: Installation) -> Iterator[Any]:
    """Return a client. The asynchronous one is wrapped, so that one test serves both."""
    if request.param == "synchronous":
        with Headwater(installation.url, installation.key) as client:
            yield client
        return
    with asyncio.Runner() as runner:
        asynchronous = AsyncHeadwater(installation.url, installation.key)
        yield InLoop(asynchronous, runner)
        runner.run(asynchronous.close())
