"""Each alert rule is complete, and docs/alerts.md has a section for it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
GROUPS = yaml.safe_load((ROOT / "deploy/prometheus/headwater.rules.yaml").read_text("utf-8"))["groups"]
RULES: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
PAGE = (ROOT / "docs/alerts.md").read_text("utf-8")


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_complete(name: str) -> None:
    rule = RULES[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"


def test_the_page_has_the_alerts_in_the_order_of_the_rules() -> None:
    assert re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) == list(RULES)
