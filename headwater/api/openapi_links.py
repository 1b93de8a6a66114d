"""OpenAPI links: for each operation, the operations that take an id from its response."""

from typing import Any

CONFIG, DATASET = "$response.body#/id", "$response.body#/id"
TRANSFORM = "$response.body#/pipeline_config/transforms/0/uid"
PATH_CONFIG_ID = "$request.path.config_id"


def _link(operation_id: str, **parameters: str) -> dict[str, Any]:
    return {"operationId": operation_id, "parameters": parameters}


def _links(*links: dict[str, Any]) -> dict[str, Any]:
    return {link["operationId"]: link for link in links}


_CONFIGURATION_OPERATIONS = (
    "getConfiguration",
    "replaceConfiguration",
    "replaceTransforms",
    "deployConfiguration",
    "tearDown",
    "deleteConfiguration",
)
_DEPLOYMENT_OPERATIONS = (
    "getDeployment",
    "getDeploymentStats",
    "getDeploymentMetrics",
    "getDeploymentLogs",
    "rotateCredentials",
    "tearDown",
)
_TRANSFORM_OPERATIONS = (
    "changeTransform",
    "addFilterValues",
    "replaceFilterValues",
    "removeFilterValues",
    "listFilterValues",
    "checkFilterValue",
    "countFilterValues",
)
_DATASET_OPERATIONS = (
    "getDataset",
    "addDatasetEntries",
    "removeDatasetEntries",
    "listDatasetEntries",
    "checkDatasetEntry",
    "deleteDataset",
)

LINKS: dict[str, dict[str, Any]] = {
    "createConfiguration": _links(
        *(_link(operation, config_id=CONFIG) for operation in _CONFIGURATION_OPERATIONS),
        *(_link(operation, config_id=CONFIG, transform_uid=TRANSFORM) for operation in _TRANSFORM_OPERATIONS),
    ),
    "deployConfiguration": _links(
        *(_link(operation, config_id=PATH_CONFIG_ID) for operation in _DEPLOYMENT_OPERATIONS)
    ),
    "createDataset": _links(*(_link(operation, dataset_id=DATASET) for operation in _DATASET_OPERATIONS)),
    "listFilterValues": _links(
        _link(
            "listFilterValues",
            config_id=PATH_CONFIG_ID,
            transform_uid="$request.path.transform_uid",
            cursor="$response.body#/cursor",
        )
    ),
    "listDatasetEntries": _links(
        _link("listDatasetEntries", dataset_id="$request.path.dataset_id", cursor="$response.body#/cursor")
    ),
}
"""The links of each operation's response, by operation id."""
