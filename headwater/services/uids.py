"""The uids and names of transforms and sinks, in what is stored and in what was sent."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from headwater.errors import NotFound, Problem
from headwater.model.sink import NewSink, Sink
from headwater.model.transform import KnownTransform, NewTransform

Place = Callable[[int], str]
"""The JSON pointer, in the body that was sent, of the transform at an index."""


def uid_problems(sent: Sequence[NewTransform], before: Sequence[KnownTransform | None], at: Place) -> Iterator[Problem]:
    """What is wrong with the uids of a list. before: what `match` found for it."""
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


def name_after(sent: NewTransform, before: KnownTransform | None) -> str | None:
    """The name of a transform after a save: one that is left out stays as it was stored."""
    if before is not None and "name" not in sent.model_fields_set:
        return before.name
    return sent.name


def name_problems(names: Sequence[str | None], taken: Iterable[str | None], at: Place) -> Iterator[Problem]:
    """Names that a list would hold twice. taken: the names of transforms beside the list."""
    seen = {*taken}
    for i, name in enumerate(names):
        if name is not None and name in seen:
            yield Problem(f"{at(i)}/name", f"is {name!r}, the name of another transform here; choose another one")
        seen.add(name)


def sink_uid(sent: NewSink, stored: Sequence[Sink]) -> str | None:
    """The uid of the stored sink with this name and type, or None."""
    return next((sink.uid for sink in stored if (sink.name, sink.type) == (sent.name, sent.type)), None)


def find(transforms: Sequence[KnownTransform], uid: str) -> KnownTransform | None:
    """The transform with a uid, or None."""
    return next((transform for transform in transforms if transform.uid == uid), None)


def no_transform() -> NotFound:
    """The same words wherever a path names a transform that is not there."""
    return NotFound("This configuration has no transform with this uid. Read the uids with GET …/flow/{config_id}.")
