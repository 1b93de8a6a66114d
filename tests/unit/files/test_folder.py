"""How folders are read, and what is said about files that are wrong."""

from pathlib import Path

import pytest

from headwater_client.files.errors import FolderError
from headwater_client.files.folder import find_folder, read_folder

PIPELINE = """
name: usdc whales
source: {chain: base, entity: log, start_at: 2026-01-02T03:04:05Z}
transforms:
  - name: token
    redis_set_filter: {expr: root = this.address, values: [0x8335, no]}
  - name: whales
    redis_set_filter: {expr: root = this.from, values: {file: values/whales.csv, column: address, mode: replace}}
  - name: enrich
    v8: {file: scripts/usdc.ts}
sinks:
  - {type: kafka, name: usdc, compression: "${COMPRESSION:-zstd}"}
"""
SCRIPT = "export function process(t) { return `${t.x}`; }\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "headwater.yaml", "project: wallets\nurl: ${SERVER}\ndefaults: {tags: [usdc]}\n")
    write(tmp_path, "usdc-whales.yaml", PIPELINE)
    write(tmp_path, "scripts/usdc.ts", SCRIPT)
    write(tmp_path, "values/whales.csv", "name,address\nann,0xAB\nbob,0xCD\nann,0xab\n")
    write(tmp_path, "tests/usdc-whales.test.yaml", "pipeline: usdc-whales\n")
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def refusal(folder: Path, environment: str = "") -> str:
    with pytest.raises(FolderError) as refused:
        read_folder(folder, environment, {"SERVER": "http://x"})
    return str(refused.value)


def test_a_folder(folder: Path) -> None:
    read = read_folder(folder, variables={"SERVER": "http://server:8080"})
    [pipeline] = read.pipelines
    assert (read.project, read.url, read.external_id(pipeline.key)) == (
        "wallets",
        "http://server:8080",
        "wallets/usdc-whales",
    )
    assert (pipeline.name, pipeline.tags, pipeline.deploy) == ("usdc whales", ("usdc",), "running")
    assert pipeline.config["source"] == {"chain": "base", "entity": "log", "start_at": "2026-01-02T03:04:05Z"}
    assert pipeline.config["transforms"][2] == {"name": "enrich", "type": "v8", "script": SCRIPT}
    assert pipeline.config["sinks"] == [{"type": "kafka", "name": "usdc", "compression": "zstd"}]
    assert pipeline.values["token"].texts == ("0x8335", "no")
    assert pipeline.values["whales"].summary().count == 2
    assert pipeline.script_labels == {"enrich": "scripts/usdc.ts"}


def test_an_environment(folder: Path) -> None:
    environments = """environments:
  test: {project: wallets-test, url: 'http://t', variables: {COMPRESSION: lz4}, defaults: {deploy: paused}}"""
    write(folder, "headwater.yaml", f"project: wallets\n{environments}\n")
    read = read_folder(folder, "test", {"COMPRESSION": "gzip"})
    assert (read.project, read.url, read.pipelines[0].deploy) == ("wallets-test", "http://t", "paused")
    assert read.pipelines[0].config["sinks"][0]["compression"] == "lz4"
    assert refusal(folder, "prod") == "headwater.yaml has no environment 'prod'; it has: test."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: {chain: base", "usdc-whales.yaml, line 2:"),
        ("sinks: []\nsinks: []", "line 2: the key 'sinks' is repeated."),
        ("source: {chain: base, entity: log}\nsinks: []", "usdc-whales.yaml, sinks: Expected `array` of length >= 1."),
        ("source: {chain: base, entity: log}\nsink: []", "Object contains unknown field `sink`."),
        (PIPELINE.replace("usdc.ts", "x.ts"), "transforms.enrich: scripts/x.ts can't be read"),
        (PIPELINE.replace("scripts/usdc.ts", "../../x.ts"), "transforms.enrich: ../../x.ts is outside of the folder."),
        (
            PIPELINE.replace("values/whales.csv", "values/x.csv"),
            "transforms.whales.values: there is no file values/x.csv.",
        ),
        (PIPELINE.replace("[0x8335, no]", "[8335]"), "Expected `str`, got `int`; put the text into quotes."),
        (PIPELINE.replace("name: whales", "name: token"), "transforms: the name 'token' is there twice."),
        (PIPELINE.replace("v8:", "v9:"), "Object contains unknown field `v9`."),
        (PIPELINE.replace(":-zstd", ""), "the variable COMPRESSION is not set."),
    ],
)
def test_wrong_files(folder: Path, text: str, message: str) -> None:
    write(folder, "usdc-whales.yaml", text)
    refused = refusal(folder)
    assert message in refused
    assert refused.startswith("usdc-whales.yaml")


def test_a_column_that_is_not_there(folder: Path) -> None:
    write(folder, "values/whales.csv", "name,wallet\nann,0xAB\n")
    [pipeline] = read_folder(folder, variables={"SERVER": "http://x"}).pipelines
    with pytest.raises(FolderError, match="has no column 'address'; it has: name, wallet"):
        pipeline.values["whales"].summary()


def test_where_the_folder_is(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(folder)
    assert find_folder(None) == Path()
    with pytest.raises(FolderError, match=r"There is no headwater.yaml in .*/values"):
        find_folder(folder / "values")
