"""The lookups of `flow.contains`, and the functions that carry them out."""

from collections.abc import Callable

LookupRequest = list[tuple[str, list[str]]]
"""Dataset names, and for each name the values to look up, as the script wrote them."""
LookupResult = list[list[bool] | None]
"""For each name of a request, whether each value is a member; None for an unknown dataset."""
LookupFunction = Callable[[LookupRequest], LookupResult]
"""Carries out the lookup requests of a script, on a thread of the sandbox. May raise a HeadwaterError."""
