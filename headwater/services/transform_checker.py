"""Checks and compiles the transforms in a request, with the code of their types.

A compiled transform is ready to be stored.
"""

import functools
from collections.abc import Mapping, Sequence

import msgspec

from headwater.errors import InvalidInput
from headwater.model.stream import Entity
from headwater.model.transforms import TRANSFORM_MODELS, NewTransform, TransformConfig
from headwater.model.transforms.base import TransformIdentity
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST, normalise_all
from headwater.services import transform_identities
from headwater.services.findings import Findings, with_prefix
from headwater.services.ids import NewId
from headwater.services.transform_identities import PointerOf
from headwater.transforms.transform_type import PrepareContext, PreparedTransform, TransformType, ValidateScript


class TransformChecker:
    """Checks and compiles transforms.

    Args:
        types: The code of each type of transforms, by the name of the type.
        validate_script: Compiles a script in the sandbox, and runs it on an example record.
        new_id: Returns the uid of a new transform.
    """

    def __init__(self, types: Mapping[str, TransformType], validate_script: ValidateScript, new_id: NewId) -> None:
        self._types = types
        self._validate_script = validate_script
        self._new_id = new_id

    def with_compile_cache(self) -> "TransformChecker":
        """Return a checker that compiles each script only once.

        A script is not compiled again when the same request is checked again.
        """
        return TransformChecker(self._types, functools.cache(self._validate_script), self._new_id)

    def check(
        self,
        sent: Sequence[NewTransform],
        matched: Sequence[TransformIdentity | None],
        pointer_of: PointerOf,
        findings: Findings,
        other_names: Sequence[str | None] = (),
    ) -> list[TransformConfig]:
        """Check the sent transforms, and return the transforms to prepare.

        The faults are added to `findings`.

        Args:
            matched: For each sent transform, its stored transform from before the save; None for a new transform.
            other_names: The names of stored transforms that are not in the request.
        """
        pairs = list(zip(sent, matched, strict=True))
        names = [transform_identities.effective_name(*pair) for pair in pairs]
        findings.faults.extend(transform_identities.uid_faults(sent, matched, pointer_of))
        findings.faults.extend(transform_identities.name_faults(names, other_names, pointer_of))
        return [self._check_one(pointer_of(i), *pair, names[i], findings) for i, pair in enumerate(pairs)]

    def prepare(
        self,
        transforms: Sequence[TransformConfig],
        entity: Entity,
        stored: Sequence[TransformConfig],
        pointer_of: PointerOf,
        findings: Findings,
    ) -> list[TransformConfig]:
        """Prepare the transforms, add warnings to `findings`, and return the transforms to store.

        A script is compiled, and runs once on the example record. Raises InvalidInput with the faults of all
        transforms.

        Args:
            entity: The kind of the stream's records.
            stored: The stored transforms whose scripts have already run on this example, and so need not be compiled
                again; empty when there are none.
        """
        example = msgspec.json.encode(entity.example).decode()
        context = PrepareContext(self._validate_script, example, stored, entity.fields.keys())
        prepared: list[PreparedTransform] = []
        for transform in transforms:
            prepared.append(self._types[transform.type].prepare(transform, context))
            # Only a transform that passes records on unchanged also keeps their fields.
            if not self._types[transform.type].keeps_records:
                context = context._replace(fields=None)
        for i, result in enumerate(prepared):
            findings.faults.extend(with_prefix(pointer_of(i), result.faults))
            findings.warnings.extend(with_prefix(pointer_of(i), result.warnings))
        findings.raise_faults()
        return [result.config for result in prepared]

    def _check_one(
        self, pointer: str, sent: NewTransform, matched: TransformIdentity | None, name: str | None, findings: Findings
    ) -> TransformConfig:
        uid = matched.uid if matched else self._new_id()
        findings.faults.extend(with_prefix(pointer, [*self._types[sent.type].find_faults(sent)]))
        if sent.owns_set:
            _check_initial_values(pointer, uid, sent, matched, findings)
        model = TRANSFORM_MODELS[sent.type]
        members = sent.model_dump(include=model.model_fields.keys() - {"uid", "name"})
        return model(uid=uid, name=name, **members)


def _check_initial_values(
    pointer: str, uid: str, sent: NewTransform, matched: TransformIdentity | None, findings: Findings
) -> None:
    """Add the initial values of a new transform's set to `findings`, after a check.

    The set of a stored transform keeps its values; initial values for it get a warning.
    """
    values, values_pointer = sent.initial_values, f"{pointer}/set_values"
    if matched is None:
        findings.new_filter_pointers.append(pointer)
        _add_values(values_pointer, uid, values or [], findings)
    elif values is not None:
        findings.add_warning(
            values_pointer,
            f"were ignored: the filter exists and keeps its values; change them with …/transforms/{uid}/filter-values",
        )


def _add_values(pointer: str, uid: str, values: list[str], findings: Findings) -> None:
    if len(values) > MAX_VALUES_PER_REQUEST:
        detail = f"has {len(values)} values; send at most {MAX_VALUES_PER_REQUEST} and add the rest later"
        findings.add_fault(pointer, detail)
        return
    if not values:
        return
    try:
        findings.initial_values[uid] = normalise_all(values)
    except InvalidInput as error:
        for fault in error.faults:
            findings.add_fault(pointer + fault.pointer.removeprefix("/values"), fault.detail)
