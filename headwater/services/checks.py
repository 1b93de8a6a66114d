"""Checks of a sent pipeline that need more than its form: the catalog, the sandbox, the expression parser."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from headwater.errors import ExpressionRefused, InvalidInput, Problem, ScriptRefused
from headwater.model.binding import Bindings, PubSubSubscription
from headwater.model.dataset import MAX_VALUES_PER_REQUEST, normalise_all
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
    KnownTransform,
    NewRedisSetFilterTransform,
    NewTransform,
    NewV8Transform,
    RedisSetFilterTransform,
    Transform,
    V8Transform,
)
from headwater.services import uids
from headwater.services.ids import NewId
from headwater.services.matching import match
from headwater.services.uids import Place

ValidateScript = Callable[[str, str], CheckedScript]
"""Compile a script in the sandbox and try it on an example record (JSON text).

Raises ScriptRefused, whose detail names line and column where they are known, and SandboxFailed."""

_JavaScript = Mapping[str, str | None]
"""By the script that was sent, the script that was made from it; None for one that runs as it is."""

ParseExpression = Callable[[str], object]
"""Parse a filter expression. Raises ExpressionRefused."""

PIPELINE = "/pipeline_config"


@dataclass(frozen=True, slots=True)
class Checked:
    """A pipeline that can be stored. All pointers are into the body that was sent.

    values: the first values of new filters, by transform uid. new_filters: the pointers of the filters that the stored
    revision does not have. ended_filters: the filters of the stored revision that this one does not have.
    """

    config: PipelineConfig
    warnings: list[Problem]
    values: dict[str, list[str]] = field(repr=False)
    new_filters: list[str] = field(default_factory=list)
    ended_filters: list[KnownTransform] = field(default_factory=list)


@dataclass(slots=True)
class _Findings:
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)
    new_filters: list[str] = field(default_factory=list)

    def refuse(self, pointer: str, detail: str) -> None:
        self.problems.append(Problem(pointer, detail))

    def raise_if_any(self) -> None:
        if self.problems:
            raise InvalidInput("The configuration was not saved.", self.problems)

    def warn(self, pointer: str, detail: str) -> None:
        self.warnings.append(Problem(pointer, detail))

    def checked(self, config: PipelineConfig, stored: PipelineConfig | None) -> Checked:
        before = stored.known_transforms if stored else ()
        ended = [t for t in before if t.type == "redis_set_filter" and t.uid not in config.filter_uids]
        return Checked(config, self.warnings, self.values, self.new_filters, ended)


class PipelineChecker:
    """Turns what was sent into a pipeline that can be stored, every transform and sink with its uid.

    All methods raise InvalidInput with all faults, SandboxFailed, and block while the sandbox compiles scripts.
    """

    def __init__(
        self,
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

    def for_one_request(self) -> "PipelineChecker":
        """The same, but it compiles each script once, however often what was sent is checked."""
        compile_once = functools.cache(self._validate_script)
        return PipelineChecker(self._bindings, compile_once, self._parse_expression, self._new_id, self._sink_limits)

    def create(self, sent: NewPipelineConfig) -> Checked:
        """A new configuration: uids are ignored, they may be those of the one that it is a copy of."""
        own = [transform.model_copy(update={"uid": None}) for transform in sent.transforms]
        return self._pipeline(sent.model_copy(update={"transforms": own}), None)

    def replace(self, sent: NewPipelineConfig, stored: PipelineConfig) -> Checked:
        """The whole of a stored configuration."""
        return self._pipeline(sent, stored)

    def replace_transforms(self, sent: Sequence[NewTransform], stored: PipelineConfig) -> Checked:
        """The list of transforms. Pointers are into a body that is the list."""
        found, at = _Findings(), "/{}".format
        transforms = self._transforms(sent, match(sent, stored.known_transforms, by_content=False), at, found)
        return self._transforms_of(stored, sent, transforms, at, found)

    def replace_transform(self, uid: str, sent: NewTransform, stored: PipelineConfig) -> Checked:
        """One transform, which keeps its uid. Pointers are into a body that is the transform. Raises NotFound."""
        before = uids.find(stored.known_transforms, uid)
        if before is None:
            raise uids.no_transform()
        if sent.uid not in (None, uid):
            raise InvalidInput(
                "The configuration was not saved.",
                [Problem("/uid", "is another one than in the address; leave it out")],
            )
        found, others = _Findings(), [t.name for t in stored.transforms if t.uid != uid]
        [changed] = self._transforms([sent], [before], lambda _: "", found, others)
        transforms = [changed if transform.uid == uid else transform for transform in stored.transforms]
        return self._transforms_of(stored, [sent], transforms, lambda _: "", found)

    def _pipeline(self, sent: NewPipelineConfig, stored: PipelineConfig | None) -> Checked:
        found = _Findings()
        source, entity = self._source(sent.source, found)
        if source is not None and sent.delivery == "exactly_once":
            self._require_kafka(source, found)
        before = match(sent.transforms, stored.known_transforms if stored else (), by_content=True)
        stored_sinks = stored.sinks if stored else ()
        sinks = [self._sink(sink, stored_sinks) for sink in sent.sinks]
        found.problems.extend(_sink_name_problems(sent.sinks))
        found.problems.extend(_topic_problems(sent.sinks, stored_sinks, self._sink_limits))
        transforms = self._transforms(sent.transforms, before, lambda i: f"{PIPELINE}/transforms/{i}", found)
        # Compiling costs a V8 process per script: not for a configuration that is refused anyway.
        if source is None or entity is None or found.problems:
            raise InvalidInput("The configuration was not saved.", found.problems)
        known = _scripts(stored) if stored and _reads_like(stored.source, source) else {}
        made = self._compile(sent.transforms, known, entity, lambda i: f"{PIPELINE}/transforms/{i}", found)
        config = PipelineConfig(
            source=source,
            transforms=_with_javascript(transforms, made),
            sinks=sinks,
            parallelism=sent.parallelism,
            delivery=sent.delivery,
        )
        return found.checked(config, stored)

    def _transforms_of(
        self,
        stored: PipelineConfig,
        sent: Sequence[NewTransform],
        transforms: Sequence[Transform],
        at: Place,
        found: _Findings,
    ) -> Checked:
        """The stored pipeline with other transforms; the scripts of those that were sent are compiled."""
        found.raise_if_any()
        made = self._compile(sent, _scripts(stored), _entity_of(stored.source), at, found)
        return found.checked(stored.model_copy(update={"transforms": _with_javascript(transforms, made)}), stored)

    # ---- source and sinks ----

    def _source(self, sent: NewSource, found: _Findings) -> tuple[Source | None, Entity | None]:
        chain = find_chain(sent.chain)
        if chain is None:
            found.refuse(f"{PIPELINE}/source/chain", f"is no known chain; choose one of {_names(CATALOG)}")
            return None, None
        entity = chain.entity(sent.entity)
        if entity is None:
            detail = f"is no entity of {chain.name}; choose one of {_names(chain.entities)}"
            found.refuse(f"{PIPELINE}/source/entity", detail)
            return None, None
        return self._bound(sent, chain, found), entity

    def _bound(self, sent: NewSource, chain: Chain, found: _Findings) -> Source:
        if sent.type not in (None, chain.source_type):
            detail = f'is "{chain.source_type}" for {chain.name}; leave it out or correct it'
            found.refuse(f"{PIPELINE}/source/type", detail)
        binding = self._bindings.of(sent.chain, sent.entity, zerolag=sent.is_zerolag)
        if binding is None:
            detail = f"{sent.chain} {sent.entity} has no zerolag feed on this installation; use false"
            found.refuse(f"{PIPELINE}/source/is_zerolag", detail)
        if isinstance(binding, PubSubSubscription) and sent.start_at != "latest":
            detail = (
                f"can't be chosen: {sent.chain} {sent.entity} is bound to a subscription, read as it is; leave it out"
            )
            found.refuse(f"{PIPELINE}/source/start_at", detail)
        return Source(
            type=chain.source_type,
            chain=sent.chain,
            entity=sent.entity,
            is_zerolag=sent.is_zerolag,
            start_at=sent.start_at,
        )

    def _require_kafka(self, source: Source, found: _Findings) -> None:
        if self._bindings.topic(source.chain, source.entity, zerolag=source.is_zerolag) is None:
            detail = (
                f"can't be exactly_once: {source.chain} {source.entity} is bound to no topic of the Kafka cluster "
                "that the sinks are on, and a transaction can't span two systems; use at_least_once"
            )
            found.refuse(f"{PIPELINE}/delivery", detail)

    def _sink(self, sent: NewSink, stored: Sequence[Sink]) -> Sink:
        uid = uids.sink_uid(sent, stored) or self._new_id()
        if isinstance(sent, NewPricesSink):
            return PricesSink(uid=uid, type=sent.type, name=sent.name)
        return KafkaSink(uid=uid, type=sent.type, name=sent.name, **sent.model_dump(include={*TOPIC_MEMBERS}))

    # ---- transforms ----

    def _transforms(
        self,
        sent: Sequence[NewTransform],
        before: Sequence[KnownTransform | None],
        at: Place,
        found: _Findings,
        other_names: Sequence[str | None] = (),
    ) -> list[Transform]:
        """The transforms to store. before: what each updates. other_names: names of transforms that were not sent."""
        pairs = list(zip(sent, before, strict=True))
        names = [uids.name_after(*pair) for pair in pairs]
        found.problems.extend(uids.uid_problems(sent, before, at))
        found.problems.extend(uids.name_problems(names, other_names, at))
        return [self._transform(at(i), *pair, names[i], found) for i, pair in enumerate(pairs)]

    def _transform(
        self, pointer: str, sent: NewTransform, before: KnownTransform | None, name: str | None, found: _Findings
    ) -> Transform:
        uid = before.uid if before else self._new_id()
        if isinstance(sent, NewV8Transform):
            return V8Transform(uid=uid, type=sent.type, name=name, script=sent.script)
        try:
            self._parse_expression(sent.filter_expr)
        except ExpressionRefused as error:
            found.refuse(f"{pointer}/filter_expr", f"column {error.column}: {error.detail}")
        if before is None:
            found.new_filters.append(pointer)
        self._first_values(f"{pointer}/set_values", uid, sent, before, found)
        return RedisSetFilterTransform(uid=uid, type=sent.type, name=name, filter_expr=sent.filter_expr)

    def _first_values(
        self,
        pointer: str,
        uid: str,
        sent: NewRedisSetFilterTransform,
        before: KnownTransform | None,
        found: _Findings,
    ) -> None:
        if before is None:
            self._values(pointer, uid, sent.set_values or [], found)
        elif sent.set_values is not None:
            found.warn(
                pointer,
                "were ignored: the filter exists and keeps its values; change them with "
                "…/transforms/{uid}/filter-values",
            )

    def _values(self, pointer: str, uid: str, values: list[str], found: _Findings) -> None:
        if len(values) > MAX_VALUES_PER_REQUEST:
            detail = f"holds {len(values)} values; send at most {MAX_VALUES_PER_REQUEST} and add the rest later"
            found.refuse(pointer, detail)
            return
        if not values:
            return
        try:
            found.values[uid] = normalise_all(values)
        except InvalidInput as error:
            found.problems.extend(
                Problem(pointer + p.pointer.removeprefix("/values"), p.detail) for p in error.problems
            )

    def _compile(
        self, sent: Sequence[NewTransform], known: _JavaScript, entity: Entity, at: Place, found: _Findings
    ) -> _JavaScript:
        """Compile the scripts that are not known. Returns what was made from all of them. Raises InvalidInput."""
        example, made = msgspec.json.encode(entity.example).decode(), dict(known)
        for i, transform in enumerate(sent):
            if isinstance(transform, NewV8Transform) and transform.script not in known:
                made[transform.script] = self._script(f"{at(i)}/script", transform.script, example, found)
        found.raise_if_any()
        return made

    def _script(self, pointer: str, script: str, example: str, found: _Findings) -> str | None:
        try:
            checked = self._validate_script(script, example)
        except ScriptRefused as error:
            found.refuse(pointer, error.detail)
            return None
        found.warnings.extend(Problem(pointer, warning) for warning in checked.warnings)
        return checked.javascript


def _scripts(stored: PipelineConfig) -> _JavaScript:
    return {t.script: t.javascript for t in stored.transforms if isinstance(t, V8Transform)}


def _with_javascript(transforms: Sequence[Transform], made: _JavaScript) -> list[Transform]:
    """The transforms, with what was made from their scripts. A script that is not in `made` keeps what it has."""
    return [
        t.model_copy(update={"javascript": made[t.script]}) if isinstance(t, V8Transform) and t.script in made else t
        for t in transforms
    ]


def _reads_like(one: Source, other: Source) -> bool:
    """True when both have the same example record."""
    return (one.chain, one.entity) == (other.chain, other.entity)


def _entity_of(source: Source) -> Entity:
    """Raises InvalidInput when a stream was taken out of the catalog since the configuration was saved."""
    chain = find_chain(source.chain)
    entity = chain.entity(source.entity) if chain else None
    if entity is None:
        raise InvalidInput(
            f"The stream {source.chain} {source.entity} is not in the catalog. PUT the configuration with another."
        )
    return entity


def _names(items: tuple[Chain, ...] | tuple[Entity, ...]) -> str:
    return ", ".join(item.name for item in items)


def _sink_name_problems(sinks: Sequence[NewSink]) -> Iterator[Problem]:
    """A topic name with a dot and one with an underscore there collide in Kafka's metrics: Kafka refuses the second."""
    seen: set[str] = set()
    for i, sink in enumerate(sinks):
        folded = sink.name.replace("_", ".")
        if sink.name.lower() == DEAD_LETTER_NAME:
            yield Problem(
                f"{PIPELINE}/sinks/{i}/name", f"{DEAD_LETTER_NAME} is taken by the dead letters; rename the sink"
            )
        elif folded in seen:
            yield Problem(f"{PIPELINE}/sinks/{i}/name", "is taken by another sink here (. and _ count as the same)")
        seen.add(folded)


def _topic_problems(sinks: Sequence[NewSink], stored: Sequence[Sink], limits: SinkLimits) -> Iterator[Problem]:
    """What is wrong with the members that set up topics: numbers over the operator's limits, and fewer partitions."""
    before = {sink.name: sink.partitions for sink in stored if isinstance(sink, KafkaSink)}
    for i, sink in enumerate(sinks):
        if isinstance(sink, NewKafkaSink):
            yield from _over_limits(f"{PIPELINE}/sinks/{i}", sink, limits)
            yield from _fewer_partitions(f"{PIPELINE}/sinks/{i}", sink.partitions, before.get(sink.name))


def _over_limits(pointer: str, sink: NewKafkaSink, limits: SinkLimits) -> Iterator[Problem]:
    ms_a_day = 24 * 3600 * 1000
    allowed = {
        "partitions": (limits.partitions, ""),
        "retention_ms": (limits.retention_days * ms_a_day, f" ({limits.retention_days} days)"),
        "retention_bytes": (limits.retention_bytes, " in each partition"),
    }
    for member, (most, unit) in allowed.items():
        value = getattr(sink, member)
        if value is not None and value > most:
            yield Problem(
                f"{pointer}/{member}", f"is {value}; this installation allows at most {most}{unit}: lower the number"
            )


def _fewer_partitions(pointer: str, partitions: int | None, before: int | None) -> Iterator[Problem]:
    if partitions is not None and before is not None and partitions < before:
        yield Problem(
            f"{pointer}/partitions",
            f"is {partitions}, and the sink has {before}: Kafka takes no partition away; keep {before} or more, or "
            "give the sink another name, and so another topic",
        )
