"""OpenAPI links: which operations take an id from the response of which operation."""

from typing import Any

CREATED_ID = "$response.body#/id"
FIRST_TRANSFORM_UID = "$response.body#/pipeline_config/transforms/0/uid"
SAVED_REVISION = "$response.body#/revision"
NEXT_CURSOR = "$response.body#/cursor"
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
    "listRevisions",
    "rollBack",
    "tearDown",
    "deleteConfiguration",
)
_REVISION_OPERATIONS = ("getRevision", "diffRevisions")
_DEPLOYMENT_OPERATIONS = (
    "getDeployment",
    "getDeploymentStats",
    "getDeploymentMetrics",
    "getDeploymentLogs",
    "listDeadLetters",
    "summarizeDeadLetters",
    "redriveDeadLetters",
    "rotateCredentials",
    "getDeploymentRecords",
    "tailDeployment",
    "pausePipeline",
    "resumePipeline",
    "rewindPipeline",
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
    "getAppliedFilterVersion",
)
_STREAM_OPERATIONS = ("getStreamRecords", "tailStream")
_DATASET_OPERATIONS = (
    "getDataset",
    "addDatasetEntries",
    "removeDatasetEntries",
    "listDatasetEntries",
    "checkDatasetEntry",
    "getAppliedDatasetVersion",
    "deleteDataset",
)

LINKS: dict[str, dict[str, Any]] = {
    "createConfiguration": _links(
        *(_link(operation, config_id=CREATED_ID) for operation in _CONFIGURATION_OPERATIONS),
        *(_link(operation, config_id=CREATED_ID, revision=SAVED_REVISION) for operation in _REVISION_OPERATIONS),
        *(
            _link(operation, config_id=CREATED_ID, transform_uid=FIRST_TRANSFORM_UID)
            for operation in _TRANSFORM_OPERATIONS
        ),
    ),
    "deployConfiguration": _links(
        *(_link(operation, config_id=PATH_CONFIG_ID) for operation in _DEPLOYMENT_OPERATIONS)
    ),
    "listStreams": _links(
        *(
            _link(operation, chain="$response.body#/0/chain", entity="$response.body#/0/entity")
            for operation in _STREAM_OPERATIONS
        )
    ),
    "createDataset": _links(*(_link(operation, dataset_id=CREATED_ID) for operation in _DATASET_OPERATIONS)),
    "listTokens": _links(_link("listTokens", cursor=NEXT_CURSOR)),
    "getOverview": _links(_link("getOverview", cursor=NEXT_CURSOR)),
    "listFilterValues": _links(
        _link(
            "listFilterValues",
            config_id=PATH_CONFIG_ID,
            transform_uid="$request.path.transform_uid",
            cursor=NEXT_CURSOR,
        )
    ),
    "listDeadLetters": _links(
        _link("listDeadLetters", config_id=PATH_CONFIG_ID, cursor=NEXT_CURSOR),
        _link("redriveDeadLetters", config_id=PATH_CONFIG_ID),
    ),
    "redriveDeadLetters": _links(_link("getRedrive", config_id=PATH_CONFIG_ID, redrive_id=CREATED_ID)),
    "listDatasetEntries": _links(
        _link("listDatasetEntries", dataset_id="$request.path.dataset_id", cursor=NEXT_CURSOR)
    ),
}
"""The links of each operation's response, by operation id."""
