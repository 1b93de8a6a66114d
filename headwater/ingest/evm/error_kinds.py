"""Classifies the errors that EVM nodes and providers return.

Nodes agree on few error codes and on no wording, so the first rule of the table that matches decides. A rule matches by
the HTTP status, the code or the message of the error, and ignores the case of the message.
"""

import enum
import re
from dataclasses import dataclass
from typing import Final


class ErrorKind(enum.Enum):
    """The kind of an error. The value describes what the client should do."""

    RATE_LIMITED = "send less at a time, later"
    BATCH_UNSUPPORTED = "send single calls"
    BATCH_TOO_LARGE = "send fewer calls in one request"
    BEHIND = "retry soon, or ask another node"
    CALL_TOO_LARGE = "ask for fewer blocks, or for a smaller result"
    METHOD_MISSING = "use another method"
    TIMED_OUT = "ask for less, or later"
    UNAUTHORIZED = "check the URL and its key"
    UNKNOWN = "retry"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that says the kind of some errors.

    Attributes:
        kind: The kind of the errors that the rule matches.
        pattern: A regular expression. The rule matches an error with a message in which the expression is found.
        codes: The rule matches an error with one of these codes.
        statuses: The rule matches an error with one of these HTTP statuses.
    """

    kind: ErrorKind
    pattern: str = r"(?!)"  # matches no message
    codes: frozenset[int] = frozenset()
    statuses: frozenset[int] = frozenset()

    def matches(self, status: int, code: int, message: str) -> bool:
        """Return whether the rule matches an error."""
        return status in self.statuses or code in self.codes or bool(re.search(self.pattern, message, re.IGNORECASE))


_LIMIT_PATTERN: Final = r"(too (large|big|many|long)|limit|exceed|max|more than|size|at most|up to)"

RULES: Final = (
    Rule(ErrorKind.BATCH_UNSUPPORTED, r"batch.*(not (supported|allowed|enabled|permitted)$|unsupported|disabled)"),
    Rule(
        ErrorKind.BATCH_UNSUPPORTED, r"batch\w* (requests?|calls?) (are|is) not (supported|allowed|enabled|permitted)"
    ),
    Rule(ErrorKind.RATE_LIMITED, r"per (second|minute|hour|day|month)|/ ?(second|sec|s|minute|min)\b"),
    Rule(ErrorKind.BATCH_TOO_LARGE, rf"batch.*{_LIMIT_PATTERN}|{_LIMIT_PATTERN}.*batch", frozenset({-32010})),
    Rule(
        ErrorKind.RATE_LIMITED,
        r"\brate\b|rate.?limit|quota|credits?\b|capacity|throughput|too many requests|throttl|call count limit"
        r"|requests? (count|limit)|usage limit|\bRPS\b|free tier limit|reached the free tier"
        r"|too much load|daily request",
        frozenset({429, -32007, -32029, -32090, -32097, -32016}),
        frozenset({402, 429}),
    ),
    Rule(
        ErrorKind.BEHIND,
        r"beyond (the )?current|beyond (the )?(head|latest)|invalid block range params|blocks specified in filter"
        r"|(greater|higher|newer) than (the )?(current|latest|head)|exceeds (the )?(current|latest|head)"
        r"|after last accepted|header not found|unknown block|block not found|block .*not found",
    ),
    Rule(
        ErrorKind.CALL_TOO_LARGE,
        r"\brang(e|es)\b|block.?range|returned more than|results?\b.*(limit|exceed|max|too)|exceeds? max (results|logs)"
        r"|(response|result|content|body|payload|output).*(too (large|big)|size|exceed|limit)|too (large|big|wide)"
        r"|query exceeds|exceed.*(blocks|logs|results|response)"
        r"|(limited|limit the query|at most|up to).*(blocks?|results|logs|\d+)"
        r"|more than \d+ (blocks|logs|results)|address filter|without an address|specify an address"
        r"|specify less|max(imum)? (number of )?(blocks|logs|results)",
        frozenset({-32003, -32008, -32012, -32062, -32614}),
        frozenset({413}),
    ),
    Rule(
        ErrorKind.METHOD_MISSING,
        r"(method|module)\b.*(not|n't|unsupported|un\w+|disabled|unavailable|whitelist)|unsupported method"
        r"|not supported|not implemented|not whitelisted|not (available|included) (on|in) your",
        frozenset({-32601, -32004}),
    ),
    Rule(
        ErrorKind.TIMED_OUT,
        r"time[d -]*out|deadline|aborted|took too long|too slow",
        frozenset({-32002}),
        frozenset({408, 504, 522, 524}),
    ),
    Rule(ErrorKind.UNAUTHORIZED, r"unauthori[sz]ed|invalid (api.?key|project id|token)|forbidden",
         statuses=frozenset({401, 403})),
)  # fmt: skip
"""The rules, of which the first one that matches holds.

The order matters where a message matches several rules: batches that are not supported, limits per unit of time, the
size of a batch, other rate limits, blocks that the node does not have yet, the size of a call, then "not supported".
"""


def classify_error(status: int, code: int, message: str) -> ErrorKind:
    """Return the kind of an error.

    `status` is the HTTP status of the response; an error in the body may come with any status.
    """
    for rule in RULES:
        if rule.matches(status, code, message):
            return rule.kind
    return ErrorKind.UNKNOWN
