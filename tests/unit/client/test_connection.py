"""The address and the key come from arguments, the environment or a profile."""

import ssl
from pathlib import Path

import pytest

from headwater_client import ConfigurationError, Headwater
from headwater_client.connection import Connection, find_connection, verification

CONFIG = """
profile = "office"

[profiles.local]
url = "http://127.0.0.1:8080"
key = "key-of-local"

[profiles.office]
url = "https://office.example/"
key_file = "{folder}/office.key"

[profiles.broken]
key = "x"
"""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the configuration folder be an empty one, and unset all variables."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("HEADWATER_URL", "HEADWATER_KEY", "HEADWATER_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def config(tmp_path: Path) -> None:
    (tmp_path / "headwater").mkdir()
    (tmp_path / "headwater" / "config.toml").write_text(CONFIG.replace("{folder}", str(tmp_path)), "utf-8")
    (tmp_path / "office.key").write_text("key-of-office\n", "utf-8")


def test_arguments_come_first(monkeypatch: pytest.MonkeyPatch, config: None) -> None:
    monkeypatch.setenv("HEADWATER_URL", "http://variable")
    monkeypatch.setenv("HEADWATER_KEY", "key-of-variable")
    assert find_connection("http://argument", "k") == Connection("http://argument", "k")
    assert find_connection() == Connection("http://variable", "key-of-variable")
    assert find_connection(profile="local") == Connection("http://127.0.0.1:8080", "key-of-local")


def test_the_default_profile(config: None) -> None:
    assert find_connection() == Connection("https://office.example", "key-of-office")


def test_a_variable_names_the_profile(config: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_PROFILE", "local")
    assert find_connection().key == "key-of-local"


def test_the_key_of_a_profile_is_sent_to_its_url_alone(config: None) -> None:
    with pytest.raises(ConfigurationError, match=r"no API key for http://other"):
        find_connection("http://other")
    assert find_connection("https://office.example").key == "key-of-office"


@pytest.mark.parametrize(
    ("profile", "message"), [("unknown", "It has: broken, local, office"), ("broken", "'broken' .* has no url")]
)
def test_a_profile_that_can_not_be_used(profile: str, message: str, config: None) -> None:
    with pytest.raises(ConfigurationError, match=message):
        find_connection(profile=profile)


@pytest.fixture
def local_key(tmp_path: Path) -> None:
    """Let the folder be one in which `headwater up` runs."""
    (tmp_path / ".headwater").mkdir()
    (tmp_path / ".headwater" / "api-key").write_text("key-of-folder\n", "utf-8")


def test_the_key_of_the_installation_in_the_folder(local_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_connection() == Connection("http://127.0.0.1:8080", "key-of-folder")
    assert find_connection("http://localhost:9000").key == "key-of-folder"
    monkeypatch.setenv("HEADWATER_KEY", "key-of-variable")
    assert find_connection().key == "key-of-variable"


def test_the_key_of_the_installation_in_the_folder_is_not_sent_elsewhere(local_key: None, config: None) -> None:
    assert find_connection().key == "key-of-office"
    for other in ("http://other:8080", "http://127.0.0.1.example:8080"):
        with pytest.raises(ConfigurationError, match="no API key for"):
            find_connection(other)
    with pytest.raises(ConfigurationError, match="no API key for"):
        find_connection("http://127.0.0.1:8081", profile="office")


def test_no_key_is_found() -> None:
    with pytest.raises(ConfigurationError, match=r"no API key for http://127\.0\.0\.1:8080. Pass key="):
        Headwater()


def test_a_url_without_a_scheme() -> None:
    with pytest.raises(ConfigurationError, match="does not begin with http"):
        Headwater("localhost:8080", "k")


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(find_connection("http://x", "secret"))


def test_only_https_needs_the_certificates_of_the_system() -> None:
    assert verification("https://headwater.example.com") is True
    context = verification("http://127.0.0.1:8080")
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname, context.get_ca_certs()) == (ssl.CERT_REQUIRED, True, [])
