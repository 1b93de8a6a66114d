"""The page of all errors."""

import inspect

from headwater.cli.docs.markdown import document, table
from headwater.errors import HeadwaterError, InvalidInput

PUBLIC_NAMES = {"faults": "`errors`", "retry_after_s": "the seconds in `Retry-After`"}
"""What responses call the attributes of exceptions that the docstrings mention."""


def page() -> str:
    """Return the page: one row per problem type of the API."""
    from headwater.api.health import NOT_READY
    from headwater.api.problems import INTERNAL_ERROR, METHOD_NOT_ALLOWED, PROBLEM_TYPES, URN
    from headwater.api.server.refusals import SERVER_PROBLEM_TYPES

    found = [(kind, _first_paragraph(error)) for error, kind in PROBLEM_TYPES.items()]
    found += [(METHOD_NOT_ALLOWED, METHOD_NOT_ALLOWED.public_detail), (INTERNAL_ERROR, INTERNAL_ERROR.public_detail)]
    found += SERVER_PROBLEM_TYPES.items()
    found.append((NOT_READY, "Response of GET /readyz; `dependencies` lists the state of each dependency."))
    found.sort(key=lambda one: (one[0].status, one[0].name))
    return document(
        "Errors",
        "Every error is a problem document (RFC 9457, `application/problem+json`) with `type`, `title`, `status`,",
        "`detail`, `instance` and `request_id`. 422 has `errors` too: a JSON pointer into the body and a sentence per",
        "fault; the pointer is empty where no member is at fault. 429 and 503 carry `Retry-After`.",
        "",
        *table(
            ("Type", "Status", "Title", "When"),
            [(f"`{URN}{kind.name}`", str(kind.status.value), kind.title, when) for kind, when in found],
        ),
        "",
        "Kinds of `invalid-input` that name a place in `detail`:",
        "",
        *(f"- {_first_paragraph(error)}" for error in InvalidInput.__subclasses__()),
    )


def _first_paragraph(error: type[HeadwaterError]) -> str:
    text = " ".join((inspect.getdoc(error) or "").split("\n\n")[0].split())
    for attribute, shown in PUBLIC_NAMES.items():
        text = text.replace(f"`{attribute}`", shown)
    return text
