"""`make bench` works on a clean clone."""

from pathlib import Path

import pytest

from benches import ingest_solana


def test_a_benchmark_without_recorded_data_is_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ingest_solana, "FOLDER", tmp_path / "nowhere")
    ingest_solana.main()
    assert "skipped: HEADWATER_TEST_DATA" in capsys.readouterr().out
