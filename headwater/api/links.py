"""Where an answer leads: the operations that take an id from it (OpenAPI links)."""

from typing import Any

CONFIG, DATASET = "$response.body#/id", "$response.body#/id"
TRANSFORM = "$response.body#/pipeline_config/transforms/0/uid"
SENT = "$request.path.config_id"


def _link(operation_id: str, **parameters: str) -> dict[str, Any]:
    return {"operationId": operation_id, "parameters": parameters}


def _links(*links: dict[str, Any]) -> dict[str, Any]:
    return {link["operationId"]: link for link in links}


_OF_A_CONFIGURATION = (
    "getConfiguration",
    "replaceConfiguration",
    "replaceTransforms",
    "deployConfiguration",
    "tearDown",
    "deleteConfiguration",
)
_OF_A_DEPLOYMENT = (
    "getDeployment",
    "getDeploymentStats",
    "getDeploymentMetrics",
    "getDeploymentLogs",
    "rotateCredentials",
    "tearDown",
)
_OF_A_TRANSFORM = (
    "changeTransform",
    "addFilterValues",
    "replaceFilterValues",
    "removeFilterValues",
    "listFilterValues",
    "checkFilterValue",
    "countFilterValues",
)
_OF_A_DATASET = (
    "getDataset",
    "addDatasetEntries",
    "removeDatasetEntries",
    "listDatasetEntries",
    "checkDatasetEntry",
    "deleteDataset",
)

LINKS: dict[str, dict[str, Any]] = {
    "createConfiguration": _links(
        *(_link(operation, config_id=CONFIG) for operation in _OF_A_CONFIGURATION),
        *(_link(operation, config_id=CONFIG, transform_uid=TRANSFORM) for operation in _OF_A_TRANSFORM),
    ),
    "deployConfiguration": _links(*(_link(operation, config_id=SENT) for operation in _OF_A_DEPLOYMENT)),
    "createDataset": _links(*(_link(operation, dataset_id=DATASET) for operation in _OF_A_DATASET)),
    "listFilterValues": _links(
        _link(
            "listFilterValues",
            config_id=SENT,
            transform_uid="$request.path.transform_uid",
            cursor="$response.body#/cursor",
        )
    ),
    "listDatasetEntries": _links(
        _link("listDatasetEntries", dataset_id="$request.path.dataset_id", cursor="$response.body#/cursor")
    ),
}
"""By the operation that answers."""
