"""The stream catalog."""

from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import failures
from headwater.api.schemas import Stream
from headwater.api.services import Given
from headwater.model.stream import CATALOG, Chain, Entity

router = guarded_router("/api/v1/flow/streams", "Streams")


@router.get(
    "", operation_id="listStreams", summary="List the streams", responses=failures(), openapi_extra=needs("flow:read")
)
async def list_all(given: Given) -> list[Stream]:
    """Every stream that a configuration's source can name, with an example record."""

    def stream(chain: Chain, entity: Entity) -> Stream:
        return Stream(
            chain=chain.name,
            entity=entity.name,
            type=chain.source_type,
            has_zerolag=given.bindings.of(chain.name, entity.name, zerolag=True) is not None,
            event_time=entity.event_time,
            description=entity.description,
            key=list(entity.key),
            prices=list(entity.prices),
            record_schema=entity.json_schema,
            example=entity.example,
        )

    return [stream(chain, entity) for chain in CATALOG for entity in chain.entities]
