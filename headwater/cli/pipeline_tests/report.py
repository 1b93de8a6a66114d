"""The results of cases, as text and as JUnit XML."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from headwater_client.files.cases import ParsedCase

LINE_CHARS: Final = 100
_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML can't contain."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case.

    Attributes:
        case: The case.
        failures: How the results differ from what is expected, in lines; empty when the case passed.
        seconds: How long the case took.
    """

    case: ParsedCase
    failures: Sequence[str]
    seconds: float

    @property
    def sign(self) -> str:
        """The sign of the result."""
        return "✗" if self.failures else "✓"


def pipeline_lines(key: str, results: Sequence[Result], fault: str) -> Iterator[str]:
    """Yield the text about one pipeline.

    Args:
        key: The name of the pipeline's file.
        results: The results of its cases.
        fault: Why its cases did not run; empty when they did.
    """
    if fault:
        yield f"{key}  ✗ {len(results)} cases did not run"
        yield from (f"  {line}" for line in fault.splitlines())
        return
    signs = [f"{each.sign} {each.case.name}" for each in results]
    if len(one_line := "  ".join([key, *signs])) <= LINE_CHARS:
        yield one_line
    else:
        yield key
        yield from (f"  {sign}" for sign in signs)
    for each in results:
        if each.failures:
            yield f"  {each.case.name} ({each.case.file})"
            yield from (f"    {line}" for line in each.failures)


def summary_line(results: Sequence[Result], seconds: float, without_cases: Sequence[str]) -> str:
    """Return the last line."""
    passed = sum(not each.failures for each in results)
    rest = f"; without cases: {', '.join(without_cases)}" if without_cases else ""
    return f"{passed} of {len(results)} passed ({seconds:.1f} s){rest}"


def document(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the results for programs."""
    return [
        {
            "pipeline": each.case.pipeline,
            "case": each.case.name,
            "file": each.case.file,
            "passed": not each.failures,
            "failures": list(each.failures),
            "seconds": round(each.seconds, 3),
        }
        for each in results
    ]


def write_junit(path: Path, results: Sequence[Result], seconds: float) -> None:
    """Write the results as JUnit XML, with a suite for each pipeline."""
    failed = Counter(each.case.pipeline for each in results if each.failures)
    root = ElementTree.Element("testsuites", _counts(len(results), failed.total(), seconds))
    for key in dict.fromkeys(each.case.pipeline for each in results):
        cases = [each for each in results if each.case.pipeline == key]
        counts = _counts(len(cases), failed[key], sum(each.seconds for each in cases))
        suite = ElementTree.SubElement(root, "testsuite", {"name": key, **counts})
        for each in cases:
            attributes = {"classname": key, "name": _xml(each.case.name), "file": each.case.file}
            node = ElementTree.SubElement(suite, "testcase", {**attributes, "time": f"{each.seconds:.3f}"})
            if each.failures:
                failure = ElementTree.SubElement(node, "failure", {"message": _xml(each.failures[0])})
                failure.text = _xml("\n".join(each.failures))
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _counts(tests: int, failures: int, seconds: float) -> dict[str, str]:
    return {"tests": str(tests), "failures": str(failures), "time": f"{seconds:.3f}"}


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
