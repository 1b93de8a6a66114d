"""The committed dashboards are those that dashboards.py generates."""

import json

import pytest

from deploy.grafana.dashboards import DASHBOARDS, DIRECTORY, text


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_up_to_date(name: str) -> None:
    assert (DIRECTORY / name).read_text("utf-8") == text(DASHBOARDS[name]), "Run `make dashboards`."


def test_there_are_no_other_dashboards() -> None:
    assert {path.name for path in DIRECTORY.glob("*.json")} == set(DASHBOARDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap_and_have_a_title_and_a_unit(name: str) -> None:
    cells: set[tuple[int, int]] = set()
    for panel in json.loads((DIRECTORY / name).read_text("utf-8"))["panels"]:
        at = panel["gridPos"]
        covered = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not covered & cells
        cells |= covered
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["options"] is not None
