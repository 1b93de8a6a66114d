"""Checks and assigns the uids and names of transforms and sinks in a request."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from headwater.errors import Fault, NotFound
from headwater.model.sink import NewSink, Sink
from headwater.model.transforms import NewTransform
from headwater.model.transforms.base import TransformIdentity

PointerOf = Callable[[int], str]
"""Returns the JSON pointer of the transform at an index of the request body."""


def uid_faults(
    sent: Sequence[NewTransform], before: Sequence[TransformIdentity | None], at: PointerOf
) -> Iterator[Fault]:
    """Yield the faults in the uids of sent transforms. before: the result of `match` for them."""
    seen: set[str] = set()
    for i, (new, old) in enumerate(zip(sent, before, strict=True)):
        if old is None:
            if new.uid is not None:
                yield Fault(
                    f"{at(i)}/uid", "is not the uid of a transform of this configuration; omit it for a new transform"
                )
            continue
        if old.uid in seen:
            yield Fault(
                f"{at(i)}/uid", "is also the uid of another transform in this list; omit it for a new transform"
            )
        elif old.type != new.type:
            yield Fault(
                f"{at(i)}/type", f"is {old.type} for this uid and can't be changed; add a new transform without a uid"
            )
        seen.add(old.uid)


def effective_name(sent: NewTransform, before: TransformIdentity | None) -> str | None:
    """Return the name of a transform after a save: an omitted name stays as it was stored."""
    if before is not None and "name" not in sent.model_fields_set:
        return before.name
    return sent.name


def name_faults(names: Sequence[str | None], taken: Iterable[str | None], at: PointerOf) -> Iterator[Fault]:
    """Yield the faults of names that would occur twice.

    Args:
        taken: Names of transforms that are not in the list.
    """
    seen = {*taken}
    for i, name in enumerate(names):
        if name is not None and name in seen:
            yield Fault(
                f"{at(i)}/name", f"is {name!r}, the name of another transform of this configuration; choose another one"
            )
        seen.add(name)


def sink_uid(sent: NewSink, stored: Sequence[Sink]) -> str | None:
    """Return the uid of the stored sink with this name and type, or None."""
    return next((sink.uid for sink in stored if (sink.name, sink.type) == (sent.name, sent.type)), None)


def find(transforms: Sequence[TransformIdentity], uid: str) -> TransformIdentity | None:
    """Return the transform with a uid, or None."""
    return next((transform for transform in transforms if transform.uid == uid), None)


def transform_not_found() -> NotFound:
    """Return the error for a path with the uid of a transform that does not exist."""
    return NotFound("This configuration has no transform with this uid. Read the uids with GET …/flow/{config_id}.")
