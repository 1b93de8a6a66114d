"""Checks the pipeline of a configuration beyond its schema.

Streams are checked against the catalog, sinks against the operator's limits, and transforms by their types.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from headwater.errors import Fault, InvalidInput, StoredDataUnreadable
from headwater.model.binding import Bindings, PubSubSubscription
from headwater.model.flow import NewPipelineConfig, NewSource, PipelineConfig, Source
from headwater.model.sink import DEAD_LETTER_NAME, SINK_MODELS, NewSink, NewTopicSink, Sink, SinkLimits, TopicSink
from headwater.model.stream import CATALOG, Chain, Entity, find_chain
from headwater.model.transforms import SET_TYPES, NewTransform, TransformConfig
from headwater.model.transforms.base import TransformIdentity
from headwater.services import transform_identities
from headwater.services.findings import Findings
from headwater.services.ids import NewId
from headwater.services.transform_checker import TransformChecker
from headwater.services.transform_identities import PointerOf
from headwater.services.transform_matching import match_transforms
from headwater.transforms.transform_type import TransformType, ValidateScript

PIPELINE = "/pipeline_config"
UNREADABLE_REVISION = (
    "This version of Headwater can't read this revision, so it can't be saved again; GET …/revisions/{revision} says "
    "why. Choose another revision from GET …/revisions, or save the configuration with PUT."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPipeline:
    """A checked pipeline that can be stored. All JSON pointers refer to the request body.

    Attributes:
        initial_values: The initial values of new filters, by the uid of the transform.
        new_filter_pointers: The pointers of the filters that get a new set.
        removed_filters: The filters of the stored revision that `config` does not have.
    """

    config: PipelineConfig
    warnings: list[Fault]
    initial_values: dict[str, list[str]] = field(repr=False)
    new_filter_pointers: list[str] = field(default_factory=list)
    removed_filters: list[TransformIdentity] = field(default_factory=list)


class PipelineChecker:
    """Checks the pipeline of a request, and assigns uids to its transforms and sinks.

    All checks block while the sandbox compiles scripts. They raise InvalidInput with all faults, and SandboxFailed.
    Scripts are compiled only when there is no other fault.
    """

    def __init__(
        self,
        *,
        bindings: Bindings,
        transform_types: Mapping[str, TransformType],
        validate_script: ValidateScript,
        new_id: NewId,
        sink_limits: SinkLimits = SinkLimits(),  # noqa: B008  # frozen
    ) -> None:
        self._bindings = bindings
        self._transforms = TransformChecker(transform_types, validate_script, new_id)
        self._new_id = new_id
        self._sink_limits = sink_limits

    def with_compile_cache(self) -> "PipelineChecker":
        """Return a checker that compiles each script only once.

        A script is not compiled again when the same request is checked again.
        """
        checker = copy.copy(self)
        checker._transforms = self._transforms.with_compile_cache()
        return checker

    def check_new(self, sent: NewPipelineConfig) -> CheckedPipeline:
        """Check a new configuration.

        Uids in the request are ignored: they may come from a copied configuration.
        """
        without_uids = [transform.model_copy(update={"uid": None}) for transform in sent.transforms]
        return self._check(sent.model_copy(update={"transforms": without_uids}), None)

    def check_replacement(self, sent: NewPipelineConfig, stored: PipelineConfig) -> CheckedPipeline:
        """Check a request that replaces a stored configuration as a whole."""
        return self._check(sent, stored)

    def check_restored(self, revision: PipelineConfig, stored: PipelineConfig) -> CheckedPipeline:
        """Check a rollback, which saves the pipeline of an earlier revision again, with its uids.

        JSON pointers refer to the configuration of that revision. A script that the stored pipeline has too is not
        compiled again. Raises StoredDataUnreadable when this version of Headwater does not accept such a pipeline in a
        request.
        """
        try:
            sent = NewPipelineConfig.model_validate(revision.without_internal_fields().model_dump())
        except ValidationError as error:
            raise StoredDataUnreadable(UNREADABLE_REVISION) from error
        return self._check(sent, stored, uids_from=revision)

    def check_transforms(self, sent: Sequence[NewTransform], stored: PipelineConfig) -> CheckedPipeline:
        """Check a request that replaces the list of transforms. JSON pointers refer to the list."""
        findings, matched = Findings(), match_transforms(sent, stored.transform_identities, by_content=False)
        transforms = self._changed_transforms(sent, matched, stored, "/{}".format, findings)
        return _checked_pipeline(stored.model_copy(update={"transforms": transforms}), stored, findings)

    def check_transform(self, uid: str, sent: NewTransform, stored: PipelineConfig) -> CheckedPipeline:
        """Check a request that changes one transform.

        JSON pointers refer to the transform. Raises NotFound.
        """
        matched = transform_identities.find_by_uid(stored.transform_identities, uid)
        if matched is None:
            raise transform_identities.transform_not_found()
        if sent.uid not in (None, uid):
            raise InvalidInput(
                "The configuration is not valid.",
                [Fault("/uid", "differs from the uid in the path; omit it")],
            )
        findings = Findings()
        other_names = [transform.name for transform in stored.transforms if transform.uid != uid]
        [changed] = self._changed_transforms([sent], [matched], stored, lambda _: "", findings, other_names)
        transforms = [changed if transform.uid == uid else transform for transform in stored.transforms]
        return _checked_pipeline(stored.model_copy(update={"transforms": transforms}), stored, findings)

    def _changed_transforms(
        self,
        sent: Sequence[NewTransform],
        matched: Sequence[TransformIdentity | None],
        stored: PipelineConfig,
        pointer_of: PointerOf,
        findings: Findings,
        other_names: Sequence[str | None] = (),
    ) -> list[TransformConfig]:
        """Return the transforms to store for a request that changes transforms only."""
        transforms = self._transforms.check(sent, matched, pointer_of, findings, other_names)
        findings.raise_faults()
        entity = _entity_of(stored.source)
        return self._transforms.prepare(transforms, entity, stored.transforms, pointer_of, findings)

    def _check(
        self, sent: NewPipelineConfig, newest: PipelineConfig | None, uids_from: PipelineConfig | None = None
    ) -> CheckedPipeline:
        """Check a whole pipeline.

        Args:
            sent: The pipeline.
            newest: The newest stored pipeline, which the sent pipeline replaces; None for a new configuration.
            uids_from: The pipeline from which matching transforms and sinks get their uids; None means `newest`.
        """
        uids_from = uids_from or newest
        findings, pointer_of = Findings(), (PIPELINE + "/transforms/{}").format
        source, entity = self._check_source(sent.source, findings)
        if source is not None and sent.delivery == "exactly_once":
            self._check_exactly_once(source, findings)
        matched = match_transforms(
            sent.transforms, uids_from.transform_identities if uids_from else (), by_content=True
        )
        sinks = [self._sink_with_uid(sink, uids_from.sinks if uids_from else ()) for sink in sent.sinks]
        findings.faults.extend(_sink_name_faults(sent.sinks))
        findings.faults.extend(_topic_faults(sent.sinks, newest.sinks if newest else (), self._sink_limits))
        transforms = self._transforms.check(sent.transforms, matched, pointer_of, findings)
        # Compiling costs a V8 process per script, so it is done only when the configuration has no other fault.
        if source is None or entity is None or findings.faults:
            raise InvalidInput("The configuration is not valid.", findings.faults)
        # A script that has run on the same example record need not run again.
        reusable = newest.transforms if newest and _has_same_example(newest.source, source) else []
        config = PipelineConfig(
            source=source,
            transforms=self._transforms.prepare(transforms, entity, reusable, pointer_of, findings),
            sinks=sinks,
            parallelism=sent.parallelism,
            delivery=sent.delivery,
        )
        return _checked_pipeline(config, newest, findings)

    def _check_source(self, sent: NewSource, findings: Findings) -> tuple[Source | None, Entity | None]:
        chain = find_chain(sent.chain)
        if chain is None:
            findings.add_fault(
                f"{PIPELINE}/source/chain", f"is not a known chain; choose one of {_joined_names(CATALOG)}"
            )
            return None, None
        entity = chain.entity(sent.entity)
        if entity is None:
            detail = f"is not an entity of {chain.name}; choose one of {_joined_names(chain.entities)}"
            findings.add_fault(f"{PIPELINE}/source/entity", detail)
            return None, None
        return self._check_binding(sent, chain, findings), entity

    def _check_binding(self, sent: NewSource, chain: Chain, findings: Findings) -> Source:
        if sent.type not in (None, chain.source_type):
            detail = f'is "{chain.source_type}" for {chain.name}; omit it or correct it'
            findings.add_fault(f"{PIPELINE}/source/type", detail)
        binding = self._bindings.find(sent.chain, sent.entity, zerolag=sent.is_zerolag)
        if binding is None:  # only a zerolag stream may be unbound
            detail = f"is true, but {sent.chain} {sent.entity} has no zerolag stream on this installation; use false"
            findings.add_fault(f"{PIPELINE}/source/is_zerolag", detail)
        if isinstance(binding, PubSubSubscription) and sent.start_at != "latest":
            detail = (
                f"can't be chosen: {sent.chain} {sent.entity} is bound to an existing subscription, which determines "
                "the start; omit it"
            )
            findings.add_fault(f"{PIPELINE}/source/start_at", detail)
        return Source(
            type=chain.source_type,
            chain=sent.chain,
            entity=sent.entity,
            is_zerolag=sent.is_zerolag,
            start_at=sent.start_at,
        )

    def _check_exactly_once(self, source: Source, findings: Findings) -> None:
        """Add a fault when the source is not on the Kafka cluster of the sinks."""
        if self._bindings.installation_topic(source.chain, source.entity, zerolag=source.is_zerolag) is None:
            detail = (
                f"can't be exactly_once: {source.chain} {source.entity} is not bound to a topic of the Kafka cluster "
                "that the sinks are on, and a transaction can't span two systems; use at_least_once"
            )
            findings.add_fault(f"{PIPELINE}/delivery", detail)

    def _sink_with_uid(self, sent: NewSink, stored: Sequence[Sink]) -> Sink:
        """Return the sink with the uid of the stored sink of its name and type, or a new uid."""
        stored_uids = (sink.uid for sink in stored if (sink.name, sink.type) == (sent.name, sent.type))
        uid = next(stored_uids, None) or self._new_id()
        model = SINK_MODELS[sent.type]
        return model(uid=uid, **sent.model_dump(include=model.model_fields.keys() - {"uid"}))


def _checked_pipeline(config: PipelineConfig, stored: PipelineConfig | None, findings: Findings) -> CheckedPipeline:
    stored_transforms = stored.transform_identities if stored else ()
    return CheckedPipeline(
        config=config,
        warnings=findings.warnings,
        initial_values=findings.initial_values,
        new_filter_pointers=findings.new_filter_pointers,
        removed_filters=[
            transform
            for transform in stored_transforms
            if transform.type in SET_TYPES and transform.uid not in config.filter_uids
        ],
    )


def _has_same_example(first: Source, second: Source) -> bool:
    """Whether both sources have the same example record."""
    return (first.chain, first.entity) == (second.chain, second.entity)


def _entity_of(source: Source) -> Entity:
    """Return the entity of a stored source.

    Raises InvalidInput when the catalog does not have the stream any more.
    """
    chain = find_chain(source.chain)
    entity = chain.entity(source.entity) if chain else None
    if entity is None:
        raise InvalidInput(
            f"The stream {source.chain} {source.entity} is not in the catalog. Replace the configuration with one "
            "that reads another stream."
        )
    return entity


def _joined_names(items: tuple[Chain, ...] | tuple[Entity, ...]) -> str:
    return ", ".join(item.name for item in items)


def _sink_name_faults(sinks: Sequence[NewSink]) -> Iterator[Fault]:
    """Yield the faults of sink names that occur twice or are reserved.

    `.` and `_` count as the same, because Kafka does not create topics whose names differ only in these characters.
    """
    folded_names: set[str] = set()
    for i, sink in enumerate(sinks):
        folded = sink.name.replace("_", ".")
        if sink.name.lower() == DEAD_LETTER_NAME:
            yield Fault(
                f"{PIPELINE}/sinks/{i}/name",
                f"is the name of the dead-letter topic ({DEAD_LETTER_NAME}); rename the sink",
            )
        elif folded in folded_names:
            yield Fault(
                f"{PIPELINE}/sinks/{i}/name",
                "is the name of another sink (. and _ count as the same); rename one of them",
            )
        folded_names.add(folded)


def _topic_faults(sinks: Sequence[NewSink], stored: Sequence[Sink], limits: SinkLimits) -> Iterator[Fault]:
    """Yield the faults in the members that configure topics.

    A number may be over its limit, or there are fewer partitions than before.
    """
    stored_partitions = {sink.name: sink.partitions for sink in stored if isinstance(sink, TopicSink)}
    for i, sink in enumerate(sinks):
        if isinstance(sink, NewTopicSink):
            yield from _limit_faults(f"{PIPELINE}/sinks/{i}", sink, limits)
            yield from _partition_faults(f"{PIPELINE}/sinks/{i}", sink.partitions, stored_partitions.get(sink.name))


def _limit_faults(pointer: str, sink: NewTopicSink, limits: SinkLimits) -> Iterator[Fault]:
    ms_a_day = 24 * 3600 * 1000
    allowed = {
        "partitions": (limits.partitions, ""),
        "retention_ms": (limits.retention_days * ms_a_day, f" ({limits.retention_days} days)"),
        "retention_bytes": (limits.retention_bytes, " in each partition"),
    }
    for member, (maximum, unit) in allowed.items():
        value = getattr(sink, member)
        if value is not None and value > maximum:
            yield Fault(
                f"{pointer}/{member}",
                f"is {value}, and this installation allows at most {maximum}{unit}; use a smaller number",
            )


def _partition_faults(pointer: str, partitions: int | None, stored: int | None) -> Iterator[Fault]:
    """Yield the fault of a sink with fewer partitions than before.

    A sink without `partitions` is valid: its topic keeps all partitions, and gets more when the source has more.
    """
    if partitions is not None and stored is not None and partitions < stored:
        yield Fault(
            f"{pointer}/partitions",
            f"is {partitions}, and the sink has {stored}: Kafka can't remove partitions; keep {stored} or more, or "
            "give the sink another name, which creates another topic",
        )
