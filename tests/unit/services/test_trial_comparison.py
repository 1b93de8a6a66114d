"""Results of two pipelines are compared by what consumers of the outputs would notice."""

import pytest

from headwater.model.record import Failure
from headwater.model.trial import Difference, TrialRecord
from headwater.services.trial_comparison import MAX_EXAMPLES, ResultComparison, find_difference

SENT = TrialRecord([b'{"a":1}'])
DROPPED = TrialRecord()


def failed(message: str) -> TrialRecord:
    return TrialRecord(failures=[Failure(0, "TypeError", message, "uid", line=1)])


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        (SENT, SENT, "same"),
        (SENT, TrialRecord([b'{ "a": 1.0 }']), "same"),
        (TrialRecord([b'{"a":1,"b":[2]}']), TrialRecord([b'{"b":[2],"a":1}']), "same"),
        (SENT, TrialRecord([b'{"a":true}']), "changed"),
        (SENT, TrialRecord([b'{"a":"1"}']), "changed"),
        (TrialRecord([b"12345678901234567890"]), TrialRecord([b"12345678901234567891"]), "changed"),
        (TrialRecord([b"1e99999999999999999999"]), TrialRecord([b"2e99999999999999999999"]), "changed"),
        (TrialRecord([b"[1,2]"]), TrialRecord([b"[2,1]"]), "changed"),
        (SENT, TrialRecord([b'{"a":1}', b'{"a":1}']), "changed"),
        (TrialRecord([b"\xff"]), TrialRecord([b"\xff"]), "same"),
        (TrialRecord([b"\xff"]), TrialRecord([b"\xfe"]), "changed"),
        (TrialRecord([None]), TrialRecord([b"null"]), "changed"),
        (SENT, DROPPED, "only_before"),
        (SENT, failed("x"), "only_before"),
        (DROPPED, SENT, "only_after"),
        (DROPPED, DROPPED, "same"),
        (DROPPED, failed("x"), "changed"),
        (failed("x"), failed("x"), "same"),
        (failed("x"), failed("y"), "changed"),
    ],
)
def test_difference(before: TrialRecord, after: TrialRecord, difference: Difference) -> None:
    assert find_difference(before, after) == difference


def test_examples_are_bounded_in_number_and_size() -> None:
    comparison = ResultComparison()
    large = TrialRecord([b'"%b"' % (b"x" * 2_000_000)])
    comparison.add(0, b"{}", large, DROPPED)
    for number in range(1, 100):
        comparison.add(number, b"{}", *((DROPPED, SENT) if number % 2 else (SENT, DROPPED)))
    result = comparison.result()
    assert result.counts == {"only_before": 50, "only_after": 50}
    assert [example.number for example in result.examples] == list(range(1, 2 * MAX_EXAMPLES + 1))
