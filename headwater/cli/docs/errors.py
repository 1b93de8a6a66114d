"""The page of all errors."""

import inspect

from headwater.cli.docs.markdown import document, paragraphs, table
from headwater.errors import HeadwaterError, InvalidInput

INTRODUCTION = """\
Every error is a problem document (RFC 9457, `application/problem+json`) with `type`, `title`, `status`, `detail`,
`instance` and `request_id`. 422 also has `errors`: for each fault a sentence and a JSON pointer into the
body; the pointer is empty when no member is at fault. An exceeded quota has `used` (null for a quota of all owners)
and `allowed`. 429 and 503 have the header `Retry-After`."""
PUBLIC_NAMES = {"`faults`": "`errors`", "`retry_after_s` seconds": "the seconds in `Retry-After`"}
"""The names that responses use, by the attributes that the docstrings of exceptions mention."""


def page() -> str:
    """Return the page: one row per problem type of the API."""
    from headwater.api.health import NOT_READY
    from headwater.api.problems import INTERNAL_ERROR, INTERRUPTED, METHOD_NOT_ALLOWED, PROBLEM_TYPES, URN
    from headwater.api.server.refusals import SERVER_PROBLEM_TYPES

    problems = [(kind, _description(error)) for error, kind in PROBLEM_TYPES.items()]
    others = (METHOD_NOT_ALLOWED, INTERNAL_ERROR, INTERRUPTED)
    problems += [(problem, problem.public_detail) for problem in others]
    problems += SERVER_PROBLEM_TYPES.items()
    problems.append((NOT_READY, "Response of GET /readyz; `dependencies` lists the state of each dependency."))
    problems.sort(key=lambda problem: (problem[0].status, problem[0].name))
    return document(
        "Errors",
        *paragraphs(INTRODUCTION),
        "",
        *table(
            ("Type", "Status", "Title", "When"),
            [(f"`{URN}{kind.name}`", str(kind.status.value), kind.title, when) for kind, when in problems],
        ),
        "",
        "Kinds of `invalid-input` that name a position in `detail`:",
        "",
        *(line for error in InvalidInput.__subclasses__() for line in paragraphs(f"- {_description(error)}")),
    )


def _description(error: type[HeadwaterError]) -> str:
    """Return the docstring of an exception without its attributes, in the words of a response."""
    text = " ".join((inspect.getdoc(error) or "").partition("Attributes:")[0].split())
    for attribute, public_name in PUBLIC_NAMES.items():
        text = text.replace(attribute, public_name)
    return text
