"""The folder of pipeline files that the demo applies."""

from pathlib import Path

from headwater.cli.demo import prices
from headwater.cli.demo.streams import DemoStream

PROJECT = "demo"
FILTER_PIPELINE = "watched"
"""The name of the pipeline with the filter that is changed live."""
VALUES_FILE = f"values/{FILTER_PIPELINE}.txt"

_FILTER_PIPELINE_FILE = """
name: {name}
description: {description}
source: {{chain: {chain}, entity: {entity}}}
transforms:
  - name: addresses
    redis_set_filter:
      expr: {filter_expr}
      values: {{file: {values}, mode: replace}}
  - name: shorten
    v8: {{file: scripts/{name}.js}}
sinks:
  - {{type: kafka, name: {name}}}
"""


def write_pipelines(folder: Path, stream: DemoStream) -> None:
    """Write the folder."""
    watched = _FILTER_PIPELINE_FILE.format(
        name=FILTER_PIPELINE,
        description=stream.description,
        chain=stream.chain,
        entity=stream.entity,
        filter_expr=stream.filter_expr,
        values=VALUES_FILE,
    )
    files = {
        "headwater.yaml": f"project: {PROJECT}\n",
        f"{FILTER_PIPELINE}.yaml": watched.lstrip(),
        f"scripts/{FILTER_PIPELINE}.js": f"{stream.script}\n",
        VALUES_FILE: "".join(f"{value}\n" for value in stream.watched),
        f"{prices.PIPELINE}.yaml": prices.PIPELINE_FILE,
        f"scripts/{prices.PIPELINE}.js": prices.SCRIPT,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
