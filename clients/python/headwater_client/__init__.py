"""The typed client of Headwater.

A name is imported when it is first used, so that the command line starts without the HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater_client.builders import flow_document, kafka, prices, set_filter, source, v8
    from headwater_client.client import AsyncHeadwater, Headwater
    from headwater_client.consumer import ConsumedRecord
    from headwater_client.errors import (
        Ambiguous,
        ConfigurationError,
        Conflict,
        ConnectionFailed,
        DeployFailed,
        DeployPending,
        HeadwaterError,
        MissingExtra,
        NotAllowed,
        NotFound,
        QuotaExceeded,
        RateLimited,
        RequestFailed,
        RevisionChanged,
        ServerError,
        TimedOut,
        Unauthenticated,
        Unavailable,
        UnexpectedResponse,
        Unprocessable,
        Unreadable,
    )
    from headwater_client.resources.datasets import AsyncDataset, Dataset
    from headwater_client.resources.filters import AsyncFilter, Filter
    from headwater_client.resources.flow import AsyncFlow, Flow
    from headwater_client.upload import Upload
else:
    _MODULES = {
        "Ambiguous": "errors",
        "AsyncDataset": "resources.datasets",
        "AsyncFilter": "resources.filters",
        "AsyncFlow": "resources.flow",
        "AsyncHeadwater": "client",
        "ConfigurationError": "errors",
        "Conflict": "errors",
        "ConnectionFailed": "errors",
        "ConsumedRecord": "consumer",
        "Dataset": "resources.datasets",
        "DeployFailed": "errors",
        "DeployPending": "errors",
        "Filter": "resources.filters",
        "Flow": "resources.flow",
        "flow_document": "builders",
        "Headwater": "client",
        "HeadwaterError": "errors",
        "kafka": "builders",
        "MissingExtra": "errors",
        "NotAllowed": "errors",
        "NotFound": "errors",
        "prices": "builders",
        "QuotaExceeded": "errors",
        "RateLimited": "errors",
        "RequestFailed": "errors",
        "RevisionChanged": "errors",
        "ServerError": "errors",
        "set_filter": "builders",
        "source": "builders",
        "TimedOut": "errors",
        "Unauthenticated": "errors",
        "Unavailable": "errors",
        "UnexpectedResponse": "errors",
        "Unprocessable": "errors",
        "Unreadable": "errors",
        "Upload": "upload",
        "v8": "builders",
    }

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found
        return found


__all__ = [
    "Ambiguous",
    "AsyncDataset",
    "AsyncFilter",
    "AsyncFlow",
    "AsyncHeadwater",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "ConsumedRecord",
    "Dataset",
    "DeployFailed",
    "DeployPending",
    "Filter",
    "Flow",
    "Headwater",
    "HeadwaterError",
    "MissingExtra",
    "NotAllowed",
    "NotFound",
    "QuotaExceeded",
    "RateLimited",
    "RequestFailed",
    "RevisionChanged",
    "ServerError",
    "TimedOut",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedResponse",
    "Unprocessable",
    "Unreadable",
    "Upload",
    "flow_document",
    "kafka",
    "prices",
    "set_filter",
    "source",
    "v8",
]
