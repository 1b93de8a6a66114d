"""Route that lists the catalog of streams."""

from headwater.api.dependencies import ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.api.schemas import Stream
from headwater.model.stream import CATALOG, Chain, Entity

router = authenticated_router("/api/v1/flow/streams", "Streams")


@router.get(
    "",
    operation_id="listStreams",
    summary="List the streams",
    responses=problem_responses(),
    openapi_extra=required_scopes("flow:read"),
)
async def list_all(services: ServicesDep) -> list[Stream]:
    """Lists every stream of the catalog, with its schema and an example record."""

    def stream(chain: Chain, entity: Entity) -> Stream:
        return Stream(
            chain=chain.name,
            entity=entity.name,
            type=chain.source_type,
            has_zerolag=services.bindings.find(chain.name, entity.name, zerolag=True) is not None,
            event_time=entity.event_time_field,
            description=entity.description,
            key=list(entity.key),
            prices=list(entity.price_recipes),
            record_schema=entity.json_schema,
            example=entity.example,
        )

    return [stream(chain, entity) for chain in CATALOG for entity in chain.entities]
