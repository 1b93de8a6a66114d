"""Settings of the HTTP server."""

import resource

import pytest

from headwater.api.server.limits import ServerLimits
from headwater.app.http_server import allow_open_files, limits_of, origins_of, proxies_of
from headwater.errors import SetupError
from headwater.settings import Settings


def test_the_defaults_of_settings_are_those_of_the_server() -> None:
    assert limits_of(Settings()) == ServerLimits()


def test_proxies_are_addresses_and_networks() -> None:
    proxies = proxies_of(" 10.0.0.0/8 , ::1,")
    assert [proxies.trusts(peer) for peer in ("10.1.2.3", "::1", "127.0.0.1")] == [True, True, False]
    assert not proxies_of("").trusts("127.0.0.1")


def test_an_invalid_proxy_is_named() -> None:
    with pytest.raises(SetupError, match=r"trusted_proxies .* 'proxy.internal'"):
        proxies_of("10.0.0.1,proxy.internal")


@pytest.mark.parametrize("text", ["app.example.com", "https://app.example.com/", "ftp://a", "https://*.example.com"])
def test_an_invalid_origin_is_named(text: str) -> None:
    with pytest.raises(SetupError, match="cors_origins"):
        origins_of(text)


def test_origins_may_have_ports() -> None:
    assert origins_of("https://app.example.com, http://127.0.0.1:5173,*") == [
        "https://app.example.com",
        "http://127.0.0.1:5173",
        "*",
    ]


@pytest.mark.parametrize(
    ("before", "after"), [((1_024, 20_000), 1_300), ((1_024, 1_100), 1_100), ((20_000, 20_000), 20_000)]
)
def test_the_limit_on_open_files_is_raised_to_the_hard_limit(
    before: tuple[int, int], after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {resource.RLIMIT_NOFILE: before}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    allow_open_files(1_000)
    assert limits[resource.RLIMIT_NOFILE] == (after, before[1])
