"""The demo uses only its own installation, and rejects files that it can't use."""

import os
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from headwater.app import topic_writer
from headwater.cli.demo.folder import write_pipelines
from headwater.cli.demo.installation import running
from headwater.cli.demo.streams import generated, recorded
from headwater.errors import SetupError
from headwater.settings import Settings
from headwater_client.files.folder import read_folder


@pytest.fixture(autouse=True)
def _settings_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("HEADWATER_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")


def test_the_services_of_the_demo_do_not_inherit_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environments: list[Any] = []

    def start(*_: object, env: Any = None, **__: object) -> None:
        environments.append(os.environ if env is None else env)
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(OSError), running(tmp_path, Settings(cache_dir=tmp_path)):  # noqa: PT011  # from `start`
        pass
    [environment] = environments
    assert "PATH" in environment
    assert [name for name in environment if name.startswith("HEADWATER_")] == []


def test_the_records_of_the_demo_are_written_to_its_own_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Settings] = []

    def open_topic_writer(settings: Settings, *_: object) -> NoReturn:
        opened.append(settings)
        raise SetupError("opened")

    monkeypatch.setattr(topic_writer, "open_topic_writer", open_topic_writer)
    with pytest.raises(SetupError, match="opened"):
        topic_writer.write_to_stream(tmp_path, "base", "log", iter(()), 0)
    assert [(each.data_dir, each.kafka_bootstrap_servers) for each in opened] == [(tmp_path, "")]


@pytest.mark.parametrize("content", ["", "5\n", '"address"\n', '{"other": 1}\n'])
def test_a_file_without_usable_records(content: str, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(content)
    with pytest.raises(SetupError, match="one JSON object a line"):
        recorded(file, "base", "log")


@pytest.mark.parametrize("is_recorded", [False, True])
def test_the_folder_of_the_demo_is_valid(is_recorded: bool, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"address": "0xAA"}\n{"address": "0xBB"}\n')
    stream = recorded(file, "base", "log") if is_recorded else generated(1)
    write_pipelines(tmp_path / "pipelines", stream)
    [prices, watched] = read_folder(tmp_path / "pipelines").pipelines
    assert (prices.key, watched.key) == ("prices", "watched")
    assert list(watched.values["addresses"].normalised()) == stream.watched
    assert watched.config["transforms"][0]["filter_expr"] == stream.filter_expr
