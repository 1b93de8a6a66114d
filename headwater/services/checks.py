"""Checks of a sent pipeline that need more than its form: the catalog, the sandbox, the expression parser."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from headwater.errors import ExpressionRefused, InvalidInput, Problem, ScriptRefused
from headwater.model.dataset import MAX_VALUES_PER_REQUEST, normalise_all
from headwater.model.flow import NewPipelineConfig, NewSource, PipelineConfig, Source
from headwater.model.sink import DEAD_LETTER_NAME, Sink
from headwater.model.stream import CATALOG, Bindings, Chain, Entity, find_chain
from headwater.model.transform import (
    NewRedisSetFilterTransform,
    NewTransform,
    RedisSetFilterTransform,
    Transform,
    V8Transform,
)
from headwater.services.ids import NewId

ValidateScript = Callable[[str, str], list[str]]
"""Compile a script in the sandbox and try it on an example record (JSON text); returns warnings.

Raises ScriptRefused, whose detail names line and column where they are known, and SandboxFailed."""

ParseExpression = Callable[[str], object]
"""Parse a filter expression. Raises ExpressionRefused."""

PIPELINE = "/pipeline_config"


@dataclass(frozen=True, slots=True)
class Checked:
    """A pipeline that can be stored. values: the first values of new filters, by transform uid."""

    config: PipelineConfig
    warnings: list[Problem]
    values: dict[str, list[str]] = field(repr=False)


@dataclass(slots=True)
class _Findings:
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)

    def refuse(self, pointer: str, detail: str) -> None:
        self.problems.append(Problem(pointer, detail))


class PipelineChecker:
    """Turns a sent pipeline into one that can be stored, every transform and sink with its uid."""

    def __init__(
        self, bindings: Bindings, validate_script: ValidateScript, parse_expression: ParseExpression, new_id: NewId
    ) -> None:
        self._bindings = bindings
        self._validate_script = validate_script
        self._parse_expression = parse_expression
        self._new_id = new_id

    def check(self, sent: NewPipelineConfig) -> Checked:
        """Check everything, scripts last. Raises InvalidInput with all faults, SandboxFailed."""
        found = _Findings()
        source, entity = self._source(sent.source, found)
        sinks = [self._sink(sink) for sink in sent.sinks]
        found.problems.extend(_sink_name_problems(sent.sinks))
        transforms = [self._transform(i, t, found) for i, t in enumerate(sent.transforms)]
        # Compiling costs a V8 process per script: not for a configuration that is refused anyway.
        if entity and not found.problems:
            self._scripts(sent.transforms, entity, found)
        if found.problems or source is None:
            raise InvalidInput("The configuration was not saved.", found.problems)
        config = PipelineConfig(source=source, transforms=transforms, sinks=sinks, parallelism=sent.parallelism)
        return Checked(config, found.warnings, found.values)

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
        if sent.is_zerolag and self._bindings.topic(sent.chain, sent.entity, zerolag=True) is None:
            detail = f"{sent.chain} {sent.entity} has no zerolag feed on this installation; use false"
            found.refuse(f"{PIPELINE}/source/is_zerolag", detail)
        return Source(
            type=chain.source_type,
            chain=sent.chain,
            entity=sent.entity,
            is_zerolag=sent.is_zerolag,
            start_at=sent.start_at,
        )

    def _sink(self, sent: Sink) -> Sink:
        return sent.model_copy(update={"uid": self._new_id()})

    def _transform(self, index: int, sent: NewTransform, found: _Findings) -> Transform:
        if isinstance(sent, V8Transform):
            return sent.model_copy(update={"uid": self._new_id()})
        return self._filter(f"{PIPELINE}/transforms/{index}", sent, found)

    def _scripts(self, transforms: list[NewTransform], entity: Entity, found: _Findings) -> None:
        example = msgspec.json.encode(entity.example).decode()
        for i, transform in enumerate(transforms):
            if isinstance(transform, V8Transform):
                self._script(f"{PIPELINE}/transforms/{i}/script", transform.script, example, found)

    def _script(self, pointer: str, script: str, example: str, found: _Findings) -> None:
        try:
            warnings = self._validate_script(script, example)
        except ScriptRefused as error:
            found.refuse(pointer, error.detail)
        else:
            found.warnings.extend(Problem(pointer, warning) for warning in warnings)

    def _filter(self, pointer: str, sent: NewRedisSetFilterTransform, found: _Findings) -> RedisSetFilterTransform:
        uid = self._new_id()
        try:
            self._parse_expression(sent.filter_expr)
        except ExpressionRefused as error:
            found.refuse(f"{pointer}/filter_expr", f"column {error.column}: {error.detail}")
        if sent.set_values:
            self._values(f"{pointer}/set_values", uid, sent.set_values, found)
        return RedisSetFilterTransform(uid=uid, type=sent.type, filter_expr=sent.filter_expr)

    def _values(self, pointer: str, uid: str, values: list[str], found: _Findings) -> None:
        if len(values) > MAX_VALUES_PER_REQUEST:
            detail = f"holds {len(values)} values; send at most {MAX_VALUES_PER_REQUEST} and add the rest later"
            found.refuse(pointer, detail)
            return
        try:
            found.values[uid] = normalise_all(values)
        except InvalidInput as error:
            found.problems.extend(
                Problem(pointer + p.pointer.removeprefix("/values"), p.detail) for p in error.problems
            )


def _names(items: tuple[Chain, ...] | tuple[Entity, ...]) -> str:
    return ", ".join(item.name for item in items)


def _sink_name_problems(sinks: list[Sink]) -> Iterator[Problem]:
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
