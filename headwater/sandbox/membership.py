"""The queries of `flow.contains`, and the functions that answer them."""

from collections.abc import Callable

MembershipQuery = list[tuple[str, list[str]]]
"""Dataset names, and for each name the values to look up, as the script wrote them."""
MembershipResult = list[list[bool] | None]
"""For each name of a query, whether each value is a member; None for an unknown dataset."""
LookupFunction = Callable[[MembershipQuery], MembershipResult]
"""Answers the queries of a script, on a thread of the sandbox. May raise a HeadwaterError."""
