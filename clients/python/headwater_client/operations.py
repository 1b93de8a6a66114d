"""Methods that are written once, as coroutines, for both clients.

The coroutines of the client do all input and output through `InputOutput` (input_output.py). The implementation for the
synchronous client blocks and never suspends the coroutine, so `run` can finish any of them without an event loop.
"""

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from types import MethodType, TracebackType
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar, cast, overload

P = ParamSpec("P")
T = TypeVar("T")


class Synchronous:
    """Base of the objects whose methods block until they have a result."""


class Asynchronous:
    """Base of the objects whose methods return coroutines."""


SyncT = TypeVar("SyncT", bound=Synchronous)
AsyncT = TypeVar("AsyncT", bound=Asynchronous)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    return _refuse_suspension(coroutine)


def _refuse_suspension(coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
    coroutine.close()
    raise RuntimeError("A coroutine of the synchronous client was suspended. Use AsyncHeadwater in asynchronous code.")


class SyncIterator(Generic[T]):
    """Iterates over an asynchronous generator that never suspends.

    `close()`, or the end of a `with` block, ends the requests of the iteration early.
    """

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return run(self._items.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration."""
        run(self._items.aclose())


class Operation(Generic[P, T]):
    """A method with one result."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._function = function
        functools.update_wrapper(cast("Any", self), function)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Synchronous, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        if instance is None:
            return self._function
        if isinstance(instance, Asynchronous):
            return MethodType(self._function, instance)

        @functools.wraps(self._function)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> T:
            return run(self._function(instance, *args, **kwargs))

        return blocking


class SelfOperation(Generic[P]):
    """A method that changes its object and returns it."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]]) -> None:
        self._operation = Operation(function)
        functools.update_wrapper(cast("Any", self), function)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: SyncT, owner: type) -> Callable[P, SyncT]: ...
    @overload
    def __get__(self, instance: AsyncT, owner: type) -> Callable[P, Coroutine[Any, Any, AsyncT]]: ...
    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        method: Callable[..., Any] = self._operation.__get__(instance, owner)
        return method


class Iteration(Generic[P, T]):
    """A method whose results are iterated over."""

    def __init__(self, function: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        self._function = function
        functools.update_wrapper(cast("Any", self), function)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Synchronous, owner: type) -> Callable[P, SyncIterator[T]]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        if instance is None:
            return self._function
        if isinstance(instance, Asynchronous):
            return MethodType(self._function, instance)

        @functools.wraps(self._function)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> SyncIterator[T]:
            return SyncIterator(self._function(instance, *args, **kwargs))

        return blocking


def operation(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Operation[P, T]:
    """Make a coroutine function a method of both classes."""
    return Operation(function)


def self_operation(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]]) -> SelfOperation[P]:
    """Make a coroutine function that returns its own object a method of both classes."""
    return SelfOperation(function)


def iteration(function: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> Iteration[P, T]:
    """Make an asynchronous generator function a method of both classes."""
    return Iteration(function)
