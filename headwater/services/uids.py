"""Which stored transform or sink a sent one updates. The rules are those of contract section 2."""

from collections.abc import Callable, Iterator, Sequence

from headwater.errors import NotFound, Problem
from headwater.model.sink import NewSink, Sink
from headwater.model.transform import NewTransform, Transform

Place = Callable[[int], str]
"""The JSON pointer, in the body that was sent, of the transform at an index."""


def updated(sent: Sequence[NewTransform], stored: Sequence[Transform], *, by_position: bool) -> list[Transform | None]:
    """For each sent transform the stored one whose uid it keeps; None when it is new.

    by_position: one without a uid takes over that of the transform at its position, when the type is the same and no
    other one names it.
    """
    by_uid = {transform.uid: transform for transform in stored}
    named = {transform.uid for transform in sent}

    def at_position(index: int, new: NewTransform) -> Transform | None:
        if not by_position or index >= len(stored):
            return None
        there = stored[index]
        return there if there.type == new.type and there.uid not in named else None

    return [at_position(i, new) if new.uid is None else by_uid.get(new.uid) for i, new in enumerate(sent)]


def uid_problems(sent: Sequence[NewTransform], before: Sequence[Transform | None], at: Place) -> Iterator[Problem]:
    """What is wrong with the uids of a list. before: what `updated` found for it."""
    seen: set[str] = set()
    for i, (new, old) in enumerate(zip(sent, before, strict=True)):
        if old is None:
            if new.uid is not None:
                yield Problem(f"{at(i)}/uid", "is no transform of this configuration; leave it out for a new one")
            continue
        if old.uid in seen:
            yield Problem(f"{at(i)}/uid", "stands at another transform of this list too; leave it out for a new one")
        elif old.type != new.type:
            yield Problem(
                f"{at(i)}/type", f"is {old.type} for this uid and can't be changed; add a new transform without a uid"
            )
        seen.add(old.uid)


def sink_uid(sent: NewSink, stored: Sequence[Sink]) -> str | None:
    """The uid of the stored sink with this name and type, or None."""
    return next((sink.uid for sink in stored if (sink.name, sink.type) == (sent.name, sent.type)), None)


def find(transforms: Sequence[Transform], uid: str) -> Transform | None:
    """The transform with a uid, or None."""
    return next((transform for transform in transforms if transform.uid == uid), None)


def no_transform() -> NotFound:
    """The same words wherever a path names a transform that is not there."""
    return NotFound("This configuration has no transform with this uid. Read the uids with GET …/flow/{config_id}.")
