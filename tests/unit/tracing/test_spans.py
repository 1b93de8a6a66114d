"""The ids of traces, and the connection to a receiver."""

import pytest

from headwater import extras
from headwater.app.span_exporter import connect_span_exporter
from headwater.errors import SetupError
from headwater.settings import Settings
from headwater.tracing.spans import deploy_context, new_context, parse_traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_the_ids_of_a_deploy_depend_on_deployment_and_generation() -> None:
    contexts = {deploy_context(name, generation) for name in "ab" for generation in (1, 2)}
    assert len(contexts) == 4
    assert deploy_context("a", 1) == deploy_context("a", 1)
    assert all(0 < each.trace_id < 1 << 128 and 0 < each.span_id < 1 << 64 for each in contexts)


def test_a_new_span_is_in_the_same_trace() -> None:
    first, second = new_context(7), new_context(7)
    assert first.trace_id == second.trace_id == 7
    assert first.span_id != second.span_id


def test_a_traceparent_is_read() -> None:
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-01") == (int(TRACE, 16), int(SPAN, 16))
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01-later") == (int(TRACE, 16), int(SPAN, 16))


@pytest.mark.parametrize(
    "header",
    [
        "",
        f"00-{TRACE}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
    ],
)
def test_other_headers_name_no_caller(header: str) -> None:
    assert parse_traceparent(header) is None


def test_traces_are_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    assert not connect_span_exporter(Settings(), "test").is_enabled


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _module: None)
    with pytest.raises(SetupError, match="HEADWATER_OTLP_ENDPOINT needs the extra `tracing`"):
        connect_span_exporter(Settings(otlp_endpoint="http://127.0.0.1:4318"), "test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert not connect_span_exporter(Settings(), "test").is_enabled, (
        "a variable for all programs does not stop Headwater"
    )
    captured = capsys.readouterr()
    assert "needs the extra `tracing`" in captured.out + captured.err
