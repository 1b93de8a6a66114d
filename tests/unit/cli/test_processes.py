"""Processes that cannot start print one sentence, and exit with status 2."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner, Result

from headwater.cli.application import app


@pytest.fixture(autouse=True)
def _the_log_of_others() -> Iterator[None]:
    """Restore the logging, which the commands redirect."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def refused(*arguments: str) -> str:
    done: Result = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("headwater: ")
    return done.stderr


class TestWorker:
    def test_a_missing_spec(self, tmp_path: Path) -> None:
        assert "can't be read (No such file" in refused("worker", "--spec", str(tmp_path / "none"))

    def test_the_content_of_an_invalid_spec_is_not_printed(self, tmp_path: Path) -> None:
        spec = tmp_path / "spec-1.json"
        spec.write_text('{"kafka": {"password": "secret"}}')
        sentence = refused("worker", "--spec", str(spec))
        assert "is not valid: deployment_id: Field required" in sentence
        assert "secret" not in sentence


@pytest.mark.parametrize("part", ["api", "controller"])
def test_a_mistyped_data_directory_is_not_created(tmp_path: Path, part: str) -> None:
    mistyped = tmp_path / "mistyped"
    assert "point --data-dir" in refused(part, "--data-dir", str(mistyped))
    assert not mistyped.exists()


def test_a_kafka_without_a_password(tmp_path: Path) -> None:
    kafka = ("--data-dir", str(tmp_path), "--kafka-bootstrap-servers", "kafka.example:9092")
    (tmp_path / "records.jsonl").touch()
    replay = ("replay", "--chain", "base", "--entity", "log", str(tmp_path / "records.jsonl"))
    assert "SCRAM-SHA-512 needs HEADWATER_KAFKA_PASSWORD (or HEADWATER_KAFKA_PASSWORD_FILE)" in refused(*replay, *kafka)
