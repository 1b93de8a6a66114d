"""The folder of pipeline files that the demo applies."""

from pathlib import Path

from headwater.cli.demo import prices
from headwater.cli.demo.streams import DemoStream

PROJECT = "demo"
WATCHED = "watched"
"""The name of the pipeline with the filter that is changed live."""
VALUES = f"values/{WATCHED}.txt"

_WATCHED_PIPELINE = """
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
    watched = _WATCHED_PIPELINE.format(
        name=WATCHED,
        description=stream.description,
        chain=stream.chain,
        entity=stream.entity,
        filter_expr=stream.filter_expr,
        values=VALUES,
    )
    files = {
        "headwater.yaml": f"project: {PROJECT}\n",
        f"{WATCHED}.yaml": watched.lstrip(),
        f"scripts/{WATCHED}.js": f"{stream.script}\n",
        VALUES: "".join(f"{value}\n" for value in stream.watched),
        f"{prices.PIPELINE}.yaml": prices.PIPELINE_FILE,
        f"scripts/{prices.PIPELINE}.js": prices.SCRIPT,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
