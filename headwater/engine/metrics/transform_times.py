"""Collects how long each transform takes for its batches."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.engine.transform_work import TransformWork


class WeightedTimes(NamedTuple):
    """The times of one transform in ms, and the number of records with each time."""

    times_ms: npt.NDArray[np.float64]
    weights: npt.NDArray[np.int64]

    @property
    def total_ms(self) -> float:
        """The sum of the times of all records."""
        return float(self.times_ms @ self.weights)


class TransformTimes:
    """Collects the times of transforms.

    The times of many batches are added to a histogram together.
    """

    def __init__(self) -> None:
        self._times: dict[str, list[tuple[float, int]]] = {}

    def add(self, work: Sequence[TransformWork]) -> None:
        """Add the work of a batch."""
        for each in work:
            self._times.setdefault(each.uid, []).append((1000 * each.took_s, each.record_count))

    def take(self) -> dict[str, WeightedTimes]:
        """Return and remove the times by the uid of the transform."""
        times, self._times = self._times, {}
        return {
            uid: WeightedTimes(np.array([ms for ms, _ in pairs]), np.array([count for _, count in pairs], np.int64))
            for uid, pairs in times.items()
        }
