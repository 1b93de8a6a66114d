"""Validates a pipeline beyond its schema.

Streams are checked against the catalog, scripts in the sandbox, and filter expressions with their parser.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from headwater.errors import ExpressionRefused, Fault, InvalidInput, ScriptRefused
from headwater.model.binding import Bindings, PubSubSubscription
from headwater.model.flow import NewPipelineConfig, NewSource, PipelineConfig, Source
from headwater.model.sink import (
    DEAD_LETTER_NAME,
    TOPIC_MEMBERS,
    KafkaSink,
    NewKafkaSink,
    NewPricesSink,
    NewSink,
    PricesSink,
    Sink,
    SinkLimits,
)
from headwater.model.stream import CATALOG, Chain, Entity, find_chain
from headwater.model.transform import (
    CheckedScript,
    NewRedisSetFilterTransform,
    NewTransform,
    NewV8Transform,
    RedisSetFilterTransform,
    Transform,
    TransformIdentity,
    V8Transform,
)
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST, normalise_all
from headwater.services import uids
from headwater.services.ids import NewId
from headwater.services.matching import match
from headwater.services.uids import PointerOf

ValidateScript = Callable[[str, str], CheckedScript]
"""Compiles a script in the sandbox and runs it on an example record (JSON text).

Raises ScriptRefused, whose detail names line and column where they are known, and SandboxFailed.
"""

_CompiledScripts = Mapping[str, str | None]
"""The compiled JavaScript of each script, by its source; None when the source runs unchanged."""

ParseExpression = Callable[[str], object]
"""Parses a filter expression. Raises ExpressionRefused."""

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


@dataclass(slots=True)
class _Findings:
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)
    new_filters: list[str] = field(default_factory=list)

    def refuse(self, pointer: str, detail: str) -> None:
        self.faults.append(Fault(pointer, detail))

    def raise_if_any(self) -> None:
        if self.faults:
            raise InvalidInput("The configuration was not saved.", self.faults)

    def warn(self, pointer: str, detail: str) -> None:
        self.warnings.append(Fault(pointer, detail))

    def checked(self, config: PipelineConfig, stored: PipelineConfig | None) -> CheckedPipeline:
        before = stored.transform_identities if stored else ()
        removed = [t for t in before if t.type == "redis_set_filter" and t.uid not in config.filter_uids]
        return CheckedPipeline(
            config=config,
            warnings=self.warnings,
            values=self.values,
            new_filters=self.new_filters,
            removed_filters=removed,
        )


class PipelineChecker:
    """Validates a pipeline from a request and assigns uids to its transforms and sinks.

    All methods raise InvalidInput with all faults, and SandboxFailed. They block while the sandbox compiles scripts.
    """

    def __init__(
        self,
        *,
        bindings: Bindings,
        validate_script: ValidateScript,
        parse_expression: ParseExpression,
        new_id: NewId,
        sink_limits: SinkLimits = SinkLimits(),  # noqa: B008  # frozen
    ) -> None:
        self._bindings = bindings
        self._validate_script = validate_script
        self._parse_expression = parse_expression
        self._new_id = new_id
        self._sink_limits = sink_limits

    def with_compile_cache(self) -> "PipelineChecker":
        """Return a checker that compiles each script once, also in a second check."""
        return PipelineChecker(
            bindings=self._bindings,
            validate_script=functools.cache(self._validate_script),
            parse_expression=self._parse_expression,
            new_id=self._new_id,
            sink_limits=self._sink_limits,
        )

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
        findings, at = _Findings(), "/{}".format
        transforms = self._transforms(sent, match(sent, stored.transform_identities, by_content=False), at, findings)
        return self._transforms_of(stored, sent, transforms, at, findings)

    def replace_transform(self, uid: str, sent: NewTransform, stored: PipelineConfig) -> CheckedPipeline:
        """Check a request that changes one transform.

        JSON pointers refer to the transform. Raises NotFound.
        """
        before = uids.find(stored.transform_identities, uid)
        if before is None:
            raise uids.no_transform()
        if sent.uid not in (None, uid):
            raise InvalidInput(
                "The configuration was not saved.",
                [Fault("/uid", "differs from the uid in the path; omit it")],
            )
        findings, other_names = _Findings(), [t.name for t in stored.transforms if t.uid != uid]
        [changed] = self._transforms([sent], [before], lambda _: "", findings, other_names)
        transforms = [changed if transform.uid == uid else transform for transform in stored.transforms]
        return self._transforms_of(stored, [sent], transforms, lambda _: "", findings)

    def _pipeline(self, sent: NewPipelineConfig, stored: PipelineConfig | None) -> CheckedPipeline:
        findings = _Findings()
        source, entity = self._source(sent.source, findings)
        if source is not None and sent.delivery == "exactly_once":
            self._require_kafka(source, findings)
        before = match(sent.transforms, stored.transform_identities if stored else (), by_content=True)
        stored_sinks = stored.sinks if stored else ()
        sinks = [self._sink(sink, stored_sinks) for sink in sent.sinks]
        findings.faults.extend(_sink_name_faults(sent.sinks))
        findings.faults.extend(_topic_faults(sent.sinks, stored_sinks, self._sink_limits))
        transforms = self._transforms(sent.transforms, before, lambda i: f"{PIPELINE}/transforms/{i}", findings)
        # Compiling costs a V8 process per script, so it is done only when the configuration has no other fault.
        if source is None or entity is None or findings.faults:
            raise InvalidInput("The configuration was not saved.", findings.faults)
        known = _scripts(stored) if stored and _has_same_example(stored.source, source) else {}
        compiled = self._compile(sent.transforms, known, entity, lambda i: f"{PIPELINE}/transforms/{i}", findings)
        config = PipelineConfig(
            source=source,
            transforms=_with_javascript(transforms, compiled),
            sinks=sinks,
            parallelism=sent.parallelism,
            delivery=sent.delivery,
        )
        return findings.checked(config, stored)

    def _transforms_of(
        self,
        stored: PipelineConfig,
        sent: Sequence[NewTransform],
        transforms: Sequence[Transform],
        at: PointerOf,
        findings: _Findings,
    ) -> CheckedPipeline:
        """Return the stored pipeline with new transforms. The scripts in the request are compiled."""
        findings.raise_if_any()
        compiled = self._compile(sent, _scripts(stored), _entity_of(stored.source), at, findings)
        return findings.checked(
            stored.model_copy(update={"transforms": _with_javascript(transforms, compiled)}), stored
        )

    # ---- source and sinks ----

    def _source(self, sent: NewSource, findings: _Findings) -> tuple[Source | None, Entity | None]:
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

    def _bound_source(self, sent: NewSource, chain: Chain, findings: _Findings) -> Source:
        if sent.type not in (None, chain.source_type):
            detail = f'is "{chain.source_type}" for {chain.name}; omit it or correct it'
            findings.refuse(f"{PIPELINE}/source/type", detail)
        binding = self._bindings.of(sent.chain, sent.entity, zerolag=sent.is_zerolag)
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

    def _require_kafka(self, source: Source, findings: _Findings) -> None:
        if self._bindings.topic(source.chain, source.entity, zerolag=source.is_zerolag) is None:
            detail = (
                f"can't be exactly_once: {source.chain} {source.entity} is not bound to a topic of the Kafka cluster "
                "that the sinks are on, and a transaction can't span two systems; use at_least_once"
            )
            findings.refuse(f"{PIPELINE}/delivery", detail)

    def _sink(self, sent: NewSink, stored: Sequence[Sink]) -> Sink:
        uid = uids.sink_uid(sent, stored) or self._new_id()
        if isinstance(sent, NewPricesSink):
            return PricesSink(uid=uid, type=sent.type, name=sent.name)
        return KafkaSink(uid=uid, type=sent.type, name=sent.name, **sent.model_dump(include={*TOPIC_MEMBERS}))

    # ---- transforms ----

    def _transforms(
        self,
        sent: Sequence[NewTransform],
        before: Sequence[TransformIdentity | None],
        at: PointerOf,
        findings: _Findings,
        other_names: Sequence[str | None] = (),
    ) -> list[Transform]:
        """Return the transforms to store.

        before: For each sent transform, the stored transform that it updates, or None.
        other_names: The names of stored transforms that are not in the request.
        """
        pairs = list(zip(sent, before, strict=True))
        names = [uids.effective_name(*pair) for pair in pairs]
        findings.faults.extend(uids.uid_faults(sent, before, at))
        findings.faults.extend(uids.name_faults(names, other_names, at))
        return [self._transform(at(i), *pair, names[i], findings) for i, pair in enumerate(pairs)]

    def _transform(
        self, pointer: str, sent: NewTransform, before: TransformIdentity | None, name: str | None, findings: _Findings
    ) -> Transform:
        uid = before.uid if before else self._new_id()
        if isinstance(sent, NewV8Transform):
            return V8Transform(uid=uid, type=sent.type, name=name, script=sent.script)
        try:
            self._parse_expression(sent.filter_expr)
        except ExpressionRefused as error:
            findings.refuse(f"{pointer}/filter_expr", f"column {error.column}: {error.detail}")
        if before is None:
            findings.new_filters.append(pointer)
        self._first_values(f"{pointer}/set_values", uid, sent, before, findings)
        return RedisSetFilterTransform(uid=uid, type=sent.type, name=name, filter_expr=sent.filter_expr)

    def _first_values(
        self,
        pointer: str,
        uid: str,
        sent: NewRedisSetFilterTransform,
        before: TransformIdentity | None,
        findings: _Findings,
    ) -> None:
        if before is None:
            self._values(pointer, uid, sent.set_values or [], findings)
        elif sent.set_values is not None:
            findings.warn(
                pointer,
                "were ignored: the filter exists and keeps its values; change them with "
                "…/transforms/{uid}/filter-values",
            )

    def _values(self, pointer: str, uid: str, values: list[str], findings: _Findings) -> None:
        if len(values) > MAX_VALUES_PER_REQUEST:
            detail = f"has {len(values)} values; send at most {MAX_VALUES_PER_REQUEST} and add the rest later"
            findings.refuse(pointer, detail)
            return
        if not values:
            return
        try:
            findings.values[uid] = normalise_all(values)
        except InvalidInput as error:
            findings.faults.extend(
                Fault(pointer + fault.pointer.removeprefix("/values"), fault.detail) for fault in error.faults
            )

    def _compile(
        self, sent: Sequence[NewTransform], known: _CompiledScripts, entity: Entity, at: PointerOf, findings: _Findings
    ) -> _CompiledScripts:
        """Compile the scripts that are not in `known`, and return the compiled form of all.

        Raises InvalidInput.
        """
        example, compiled = msgspec.json.encode(entity.example).decode(), dict(known)
        for i, transform in enumerate(sent):
            if isinstance(transform, NewV8Transform) and transform.script not in known:
                compiled[transform.script] = self._script(f"{at(i)}/script", transform.script, example, findings)
        findings.raise_if_any()
        return compiled

    def _script(self, pointer: str, script: str, example: str, findings: _Findings) -> str | None:
        try:
            checked = self._validate_script(script, example)
        except ScriptRefused as error:
            findings.refuse(pointer, error.detail)
            return None
        findings.warnings.extend(Fault(pointer, warning) for warning in checked.warnings)
        return checked.javascript


def _scripts(stored: PipelineConfig) -> _CompiledScripts:
    return {t.script: t.javascript for t in stored.transforms if isinstance(t, V8Transform)}


def _with_javascript(transforms: Sequence[Transform], compiled: _CompiledScripts) -> list[Transform]:
    """Return the transforms with their compiled scripts.

    A script that is not in `compiled` is not changed.
    """
    return [
        t.model_copy(update={"javascript": compiled[t.script]})
        if isinstance(t, V8Transform) and t.script in compiled
        else t
        for t in transforms
    ]


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
    before = {sink.name: sink.partitions for sink in stored if isinstance(sink, KafkaSink)}
    for i, sink in enumerate(sinks):
        if isinstance(sink, NewKafkaSink):
            yield from _over_limits(f"{PIPELINE}/sinks/{i}", sink, limits)
            yield from _fewer_partitions(f"{PIPELINE}/sinks/{i}", sink.partitions, before.get(sink.name))


def _over_limits(pointer: str, sink: NewKafkaSink, limits: SinkLimits) -> Iterator[Fault]:
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
