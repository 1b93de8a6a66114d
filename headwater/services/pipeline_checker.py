"""Validates a pipeline beyond its schema.

Streams are checked against the catalog, sinks against the operator's limits, and transforms by their types.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from headwater.errors import Fault, InvalidInput
from headwater.model.binding import Bindings, PubSubSubscription
from headwater.model.flow import NewPipelineConfig, NewSource, PipelineConfig, Source
from headwater.model.sink import DEAD_LETTER_NAME, SINK_MODELS, NewSink, NewTopicSink, Sink, SinkLimits, TopicSink
from headwater.model.stream import CATALOG, Chain, Entity, find_chain
from headwater.model.transforms import SET_TYPES, NewTransform, Transform
from headwater.model.transforms.base import TransformIdentity
from headwater.services import identities
from headwater.services.findings import Findings
from headwater.services.identities import PointerOf
from headwater.services.ids import NewId
from headwater.services.matching import match
from headwater.services.transform_checker import TransformChecker
from headwater.transforms.transform_type import TransformType, ValidateScript

PIPELINE = "/pipeline_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPipeline:
    """A validated pipeline that can be stored. All JSON pointers refer to the request body.

    Attributes:
        values: The first values of new filters, by transform uid.
        new_filters: The pointers of the filters that the stored revision does not have.
        removed_filters: The filters of the stored revision that this one does not have.
    """

    config: PipelineConfig
    warnings: list[Fault]
    values: dict[str, list[str]] = field(repr=False)
    new_filters: list[str] = field(default_factory=list)
    removed_filters: list[TransformIdentity] = field(default_factory=list)


class PipelineChecker:
    """Validates a pipeline from a request and assigns uids to its transforms and sinks.

    All methods raise InvalidInput with all faults, and SandboxFailed. They block while the sandbox compiles scripts.
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
        """Return a checker that compiles each script once, also in a second check."""
        checker = copy.copy(self)
        checker._transforms = self._transforms.with_compile_cache()
        return checker

    def create(self, sent: NewPipelineConfig) -> CheckedPipeline:
        """Check a new configuration.

        Uids in the request are ignored: they may come from a copied configuration.
        """
        without_uids = [transform.model_copy(update={"uid": None}) for transform in sent.transforms]
        return self._pipeline(sent.model_copy(update={"transforms": without_uids}), None)

    def replace(self, sent: NewPipelineConfig, stored: PipelineConfig) -> CheckedPipeline:
        """Check a request that replaces a stored configuration as a whole."""
        return self._pipeline(sent, stored)

    def replace_transforms(self, sent: Sequence[NewTransform], stored: PipelineConfig) -> CheckedPipeline:
        """Check a request that replaces the list of transforms. JSON pointers refer to the list."""
        findings, before = Findings(), match(sent, stored.transform_identities, by_content=False)
        transforms = self._changed_transforms(sent, before, stored, "/{}".format, findings)
        return _checked(stored.model_copy(update={"transforms": transforms}), stored, findings)

    def replace_transform(self, uid: str, sent: NewTransform, stored: PipelineConfig) -> CheckedPipeline:
        """Check a request that changes one transform.

        JSON pointers refer to the transform. Raises NotFound.
        """
        before = identities.find(stored.transform_identities, uid)
        if before is None:
            raise identities.transform_not_found()
        if sent.uid not in (None, uid):
            raise InvalidInput(
                "The configuration was not saved.",
                [Fault("/uid", "differs from the uid in the path; omit it")],
            )
        findings, other_names = Findings(), [t.name for t in stored.transforms if t.uid != uid]
        [changed] = self._changed_transforms([sent], [before], stored, lambda _: "", findings, other_names)
        transforms = [changed if transform.uid == uid else transform for transform in stored.transforms]
        return _checked(stored.model_copy(update={"transforms": transforms}), stored, findings)

    def _changed_transforms(
        self,
        sent: Sequence[NewTransform],
        before: Sequence[TransformIdentity | None],
        stored: PipelineConfig,
        at: PointerOf,
        findings: Findings,
        other_names: Sequence[str | None] = (),
    ) -> list[Transform]:
        """Return the transforms to store for a request that changes transforms only."""
        transforms = self._transforms.check(sent, before, at, findings, other_names)
        findings.raise_faults()
        return self._transforms.compile(
            transforms, _example(_entity_of(stored.source)), stored.transforms, at, findings
        )

    def _pipeline(self, sent: NewPipelineConfig, stored: PipelineConfig | None) -> CheckedPipeline:
        findings, at = Findings(), (PIPELINE + "/transforms/{}").format
        source, entity = self._source(sent.source, findings)
        if source is not None and sent.delivery == "exactly_once":
            self._require_kafka(source, findings)
        before = match(sent.transforms, stored.transform_identities if stored else (), by_content=True)
        stored_sinks = stored.sinks if stored else ()
        sinks = [self._sink(sink, stored_sinks) for sink in sent.sinks]
        findings.faults.extend(_sink_name_faults(sent.sinks))
        findings.faults.extend(_topic_faults(sent.sinks, stored_sinks, self._sink_limits))
        transforms = self._transforms.check(sent.transforms, before, at, findings)
        # Compiling costs a V8 process per script, so it is done only when the configuration has no other fault.
        if source is None or entity is None or findings.faults:
            raise InvalidInput("The configuration was not saved.", findings.faults)
        known = stored.transforms if stored and _has_same_example(stored.source, source) else []
        config = PipelineConfig(
            source=source,
            transforms=self._transforms.compile(transforms, _example(entity), known, at, findings),
            sinks=sinks,
            parallelism=sent.parallelism,
            delivery=sent.delivery,
        )
        return _checked(config, stored, findings)

    # ---- source and sinks ----

    def _source(self, sent: NewSource, findings: Findings) -> tuple[Source | None, Entity | None]:
        chain = find_chain(sent.chain)
        if chain is None:
            findings.refuse(f"{PIPELINE}/source/chain", f"is not a known chain; choose one of {_names(CATALOG)}")
            return None, None
        entity = chain.entity(sent.entity)
        if entity is None:
            detail = f"is not an entity of {chain.name}; choose one of {_names(chain.entities)}"
            findings.refuse(f"{PIPELINE}/source/entity", detail)
            return None, None
        return self._bound_source(sent, chain, findings), entity

    def _bound_source(self, sent: NewSource, chain: Chain, findings: Findings) -> Source:
        if sent.type not in (None, chain.source_type):
            detail = f'is "{chain.source_type}" for {chain.name}; omit it or correct it'
            findings.refuse(f"{PIPELINE}/source/type", detail)
        binding = self._bindings.find(sent.chain, sent.entity, zerolag=sent.is_zerolag)
        if binding is None:
            detail = f"{sent.chain} {sent.entity} has no zerolag feed on this installation; use false"
            findings.refuse(f"{PIPELINE}/source/is_zerolag", detail)
        if isinstance(binding, PubSubSubscription) and sent.start_at != "latest":
            detail = (
                f"can't be chosen: {sent.chain} {sent.entity} is bound to an existing subscription, which determines "
                "the start; omit it"
            )
            findings.refuse(f"{PIPELINE}/source/start_at", detail)
        return Source(
            type=chain.source_type,
            chain=sent.chain,
            entity=sent.entity,
            is_zerolag=sent.is_zerolag,
            start_at=sent.start_at,
        )

    def _require_kafka(self, source: Source, findings: Findings) -> None:
        if self._bindings.own_topic(source.chain, source.entity, zerolag=source.is_zerolag) is None:
            detail = (
                f"can't be exactly_once: {source.chain} {source.entity} is not bound to a topic of the Kafka cluster "
                "that the sinks are on, and a transaction can't span two systems; use at_least_once"
            )
            findings.refuse(f"{PIPELINE}/delivery", detail)

    def _sink(self, sent: NewSink, stored: Sequence[Sink]) -> Sink:
        uid = identities.sink_uid(sent, stored) or self._new_id()
        model = SINK_MODELS[sent.type]
        return model(uid=uid, **sent.model_dump(include=model.model_fields.keys() - {"uid"}))


def _checked(config: PipelineConfig, stored: PipelineConfig | None, findings: Findings) -> CheckedPipeline:
    before = stored.transform_identities if stored else ()
    return CheckedPipeline(
        config=config,
        warnings=findings.warnings,
        values=findings.values,
        new_filters=findings.new_filters,
        removed_filters=[t for t in before if t.type in SET_TYPES and t.uid not in config.filter_uids],
    )


def _example(entity: Entity) -> str:
    return msgspec.json.encode(entity.example).decode()


def _has_same_example(first: Source, second: Source) -> bool:
    """Whether both sources have the same example record."""
    return (first.chain, first.entity) == (second.chain, second.entity)


def _entity_of(source: Source) -> Entity:
    """Return the entity of a source.

    Raises InvalidInput when the stream has been removed from the catalog since the configuration was saved.
    """
    chain = find_chain(source.chain)
    entity = chain.entity(source.entity) if chain else None
    if entity is None:
        raise InvalidInput(
            f"The stream {source.chain} {source.entity} is not in the catalog. Replace the configuration with one "
            "that reads another stream."
        )
    return entity


def _names(items: tuple[Chain, ...] | tuple[Entity, ...]) -> str:
    return ", ".join(item.name for item in items)


def _sink_name_faults(sinks: Sequence[NewSink]) -> Iterator[Fault]:
    """Yield the faults of duplicate sink names.

    `.` and `_` count as the same, because Kafka refuses topics whose names differ only in them.
    """
    seen: set[str] = set()
    for i, sink in enumerate(sinks):
        folded = sink.name.replace("_", ".")
        if sink.name.lower() == DEAD_LETTER_NAME:
            yield Fault(
                f"{PIPELINE}/sinks/{i}/name",
                f"{DEAD_LETTER_NAME} is the name of the dead-letter topic; rename the sink",
            )
        elif folded in seen:
            yield Fault(
                f"{PIPELINE}/sinks/{i}/name",
                "is the name of another sink (. and _ count as the same); rename one of them",
            )
        seen.add(folded)


def _topic_faults(sinks: Sequence[NewSink], stored: Sequence[Sink], limits: SinkLimits) -> Iterator[Fault]:
    """Yield the faults in topic members: numbers over a limit, and fewer partitions."""
    before = {sink.name: sink.partitions for sink in stored if isinstance(sink, TopicSink)}
    for i, sink in enumerate(sinks):
        if isinstance(sink, NewTopicSink):
            yield from _over_limits(f"{PIPELINE}/sinks/{i}", sink, limits)
            yield from _fewer_partitions(f"{PIPELINE}/sinks/{i}", sink.partitions, before.get(sink.name))


def _over_limits(pointer: str, sink: NewTopicSink, limits: SinkLimits) -> Iterator[Fault]:
    ms_a_day = 24 * 3600 * 1000
    allowed = {
        "partitions": (limits.partitions, ""),
        "retention_ms": (limits.retention_days * ms_a_day, f" ({limits.retention_days} days)"),
        "retention_bytes": (limits.retention_bytes, " in each partition"),
    }
    for member, (most, unit) in allowed.items():
        value = getattr(sink, member)
        if value is not None and value > most:
            yield Fault(
                f"{pointer}/{member}",
                f"is {value}, and this installation allows at most {most}{unit}; use a smaller number",
            )


def _fewer_partitions(pointer: str, partitions: int | None, before: int | None) -> Iterator[Fault]:
    if partitions is not None and before is not None and partitions < before:
        yield Fault(
            f"{pointer}/partitions",
            f"is {partitions}, and the sink has {before}: Kafka can't remove partitions; keep {before} or more, or "
            "give the sink another name, which creates another topic",
        )
