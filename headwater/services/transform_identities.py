"""Checks the uids and names of transforms in a request, and finds transforms by uid."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from headwater.errors import Fault, NotFound
from headwater.model.transforms import NewTransform
from headwater.model.transforms.base import TransformIdentity

PointerOf = Callable[[int], str]
"""Returns the JSON pointer of the transform at an index of the request body."""


def uid_faults(
    sent: Sequence[NewTransform], matched: Sequence[TransformIdentity | None], pointer_of: PointerOf
) -> Iterator[Fault]:
    """Yield the faults in the uids of sent transforms.

    Args:
        matched: For each sent transform, its stored transform from before the save; None for a new transform.
    """
    matched_uids: set[str] = set()
    for i, (new, stored) in enumerate(zip(sent, matched, strict=True)):
        if stored is None:
            if new.uid is not None:
                yield Fault(
                    f"{pointer_of(i)}/uid",
                    "is not the uid of a transform of this configuration; omit it for a new transform",
                )
            continue
        if stored.uid in matched_uids:
            yield Fault(
                f"{pointer_of(i)}/uid", "is also the uid of another transform in this list; omit it for a new transform"
            )
        elif stored.type != new.type:
            yield Fault(
                f"{pointer_of(i)}/type",
                f"is {stored.type} for this uid and can't be changed; add a new transform without a uid",
            )
        matched_uids.add(stored.uid)


def effective_name(sent: NewTransform, matched: TransformIdentity | None) -> str | None:
    """Return the name of a transform after a save; an omitted name stays as it is stored.

    Args:
        matched: The stored transform from before the save; None for a new transform.
    """
    if matched is not None and "name" not in sent.model_fields_set:
        return matched.name
    return sent.name


def name_faults(
    names: Sequence[str | None], other_names: Iterable[str | None], pointer_of: PointerOf
) -> Iterator[Fault]:
    """Yield the faults of names that would occur twice.

    Args:
        names: The names of the sent transforms.
        other_names: The names of stored transforms that are not in the request.
    """
    taken_names = {*other_names}
    for i, name in enumerate(names):
        if name is not None and name in taken_names:
            yield Fault(
                f"{pointer_of(i)}/name",
                f"is {name!r}, the name of another transform of this configuration; choose another one",
            )
        taken_names.add(name)


def find_by_uid(transforms: Sequence[TransformIdentity], uid: str) -> TransformIdentity | None:
    """Return the transform with a uid, or None."""
    return next((transform for transform in transforms if transform.uid == uid), None)


def transform_not_found() -> NotFound:
    """Return the error for a path with the uid of a transform that does not exist."""
    return NotFound("This configuration has no transform with this uid. Read the uids with GET …/flow/{config_id}.")
