"""The threads that talk to brokers."""

import threading
from abc import ABC, abstractmethod


class Turns(ABC, threading.Thread):
    """A thread that takes turns until `_turn` says that it was the last. An error in one ends it, and is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)

    def run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as error:
            self._broke(error)
            raise
        finally:
            self.disconnect()

    @abstractmethod
    def disconnect(self) -> None:
        """From any thread: who waits for an answer stops waiting."""

    @abstractmethod
    def _turn(self) -> bool:
        """False when it was the last one."""

    @abstractmethod
    def _broke(self, error: BaseException) -> None:
        """Tell whoever has to know."""
