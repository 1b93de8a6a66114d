"""The command that shows the state of the server."""

from collections import Counter
from typing import Any

import typer

from headwater_client.cli.command import Run, command
from headwater_client.cli.exit_codes import SERVICE_UNAVAILABLE
from headwater_client.cli.output import Column


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    command(app)(status)


def status(run: Run) -> None:
    """Show the server, the API key, the quotas, and how many pipelines are in which state."""
    from headwater_client import Unavailable

    ready = True
    try:
        dependencies = run.hw.readiness().dependencies
    except Unavailable as error:
        ready, dependencies = False, {"server": error.problem.detail}
    document: dict[str, Any] = {"url": run.hw.url, "ready": ready, "dependencies": dependencies}
    if ready:
        key = run.hw.me()
        states = Counter(item.state for item in run.hw.flows.overview(page_size=200))
        document |= {"key": key, "limits": list(run.hw.limits()), "pipelines": dict(states)}
    if run.out.as_json:
        run.out.json(document)
    else:
        rows = [["server", f"{run.hw.url} {'is ready' if ready else 'is not ready'}"]]
        rows += [[name, state] for name, state in dependencies.items()]
        if ready:
            rows.append(["API key", f"{key.key_id} of {key.owner}: {', '.join(key.scopes)}"])
            rows.append(["pipelines", ", ".join(f"{count} {state}" for state, count in states.items()) or "none"])
            limits = [each for each in document["limits"] if each.allowed is not None]
            rows += [[each.name.replace("_", " "), f"{each.used:,} of {each.allowed:,}"] for each in limits]
        run.out.table([Column("WHAT"), Column("STATE")], rows)
    if not ready:
        raise typer.Exit(SERVICE_UNAVAILABLE)
