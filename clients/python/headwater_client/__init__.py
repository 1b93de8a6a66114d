"""The typed client of Headwater."""

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
