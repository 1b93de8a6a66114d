"""Commands that feed streams from chain nodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli.options import KAFKA, takes_settings
from headwater.settings import Settings

if TYPE_CHECKING:
    from threading import Event

    from headwater.ingest.base import Feed
    from headwater.ingest.options import IngestOptions

app = typer.Typer(help="Feed streams from chain nodes; each ingest goes on where it stopped.", no_args_is_help=True)

_SETTINGS = (*KAFKA, "log_level", "kafka_replication", "stream_bindings")


def run(settings: Settings, name: Annotated[str, typer.Argument(help="A name in the file of --ingests.")]) -> None:
    """Run one ingest of the file in settings, as `headwater up` does."""
    from headwater.app.ingest import run_ingest, stop_by_signal
    from headwater.app.ingests import load_ingest
    from headwater.telemetry import configure_logging

    configure_logging(settings.log_level)
    options, open_feed = load_ingest(settings.ingests, name)
    stop = stop_by_signal()
    meters = run_ingest(settings, options, open_feed(options, settings, stop), stop)
    print(f"{name}: {meters.summary()}")


def evm(
    settings: Settings,
    chain: Annotated[str, typer.Option(help="base, polygon, …")],
    rpc: Annotated[
        list[str],
        typer.Option(
            envvar="HEADWATER_EVM_RPC",
            help="URL of a node (http or https); again for more, which are asked when it fails. Other users of this "
            "machine can read flags: the variable, with blanks between URLs, keeps keys secret.",
        ),
    ],
    ws: Annotated[str, typer.Option(envvar="HEADWATER_EVM_WS", help="URL for new heads (ws or wss).")] = "",
    name: Annotated[str, typer.Option(help="Whose position this is; default: evm-CHAIN, with the range.")] = "",
    confirmations: Annotated[int, typer.Option(min=0, help="Blocks below the head; 0: what the node calls final.")] = 0,
    finality: Annotated[
        str, typer.Option(help="The node's tag, without --confirmations: finalized or safe.")
    ] = "finalized",
    zerolag: Annotated[
        bool, typer.Option(help="Write the zerolag streams too; those that are bound are anyway.")
    ] = False,
    from_block: Annotated[int | None, typer.Option(min=0, help="First block, at the first start.")] = None,
    to_block: Annotated[int | None, typer.Option(min=0, help="Last block: ends there.")] = None,
    rate: Annotated[float, typer.Option(min=0, help="Calls a second to each node; 0 is no limit.")] = 0,
    parallel: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 4,
    poll_s: Annotated[float, typer.Option(help="Seconds between looks at the head, without --ws.")] = 1.0,
    fetch: Annotated[str, typer.Option(help="The method that is asked first: receipts (the default) or logs.")] = "",
    reorg_depth: Annotated[int, typer.Option(min=1, help="Blocks that zerolag streams can retract.")] = 256,
    metrics_port: Annotated[int, typer.Option(min=0, help="Port of 127.0.0.1 with Prometheus series; 0: none.")] = 0,
) -> None:
    """Feed the five streams of an EVM chain from a node, or with --to-block a range of its blocks."""
    from headwater.app.ingest import run_ingest
    from headwater.cli.progress import range_shown
    from headwater.ingest.evm.feed import EvmFeed
    from headwater.ingest.options import default_name

    options, feed, stop = _opened(
        "evm", settings, chain=chain, rpc=rpc, ws=ws or None,
        name=name or default_name(f"evm-{chain}", from_block, to_block), finality=confirmations or finality,
        zerolag=zerolag, from_block=from_block, to_block=to_block, rate=rate, parallel=parallel, poll_s=poll_s,
        fetch=fetch or None, reorg_depth=reorg_depth, metrics_port=metrics_port,
    )  # fmt: skip
    assert isinstance(feed, EvmFeed)
    with range_shown(from_block, to_block, "blocks") as progress:
        feed.progress = progress
        meters = run_ingest(settings, options, feed, stop)
    print(meters.summary())


app.command()(takes_settings(*_SETTINGS, "ingests")(run))
app.command()(takes_settings(*_SETTINGS)(evm))


def hyperliquid(
    settings: Settings,
    node_data: Annotated[Path | None, typer.Option(help="The folder that a node writes to (~/hl/data).")] = None,
    ws: Annotated[str | None, typer.Option(help="URL of a WebSocket API, for trades or blocks.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="What to tell; again for more. All, when none.")] = None,
    coin: Annotated[list[str] | None, typer.Option(help="A market of --ws; again for more. All, when none.")] = None,
    from_start: Annotated[bool, typer.Option(help="A first start reads what is there.")] = False,
    name: Annotated[
        str, typer.Option(help="Of this ingest: it goes on where the last one of this name stopped.")
    ] = "hyperliquid",
    metrics_port: Annotated[int, typer.Option(help="Prometheus metrics on this port of 127.0.0.1; 0 for none.")] = 0,
) -> None:
    """Blocks, trades, fills, orders and misc events of Hyperliquid, from a node's files or the WebSocket API."""
    _run("hyperliquid", settings, name=name, node_data=node_data, ws=ws, entities=entity or (), coins=coin or (),
         from_start=from_start, metrics_port=metrics_port)  # fmt: skip


app.command()(takes_settings(*_SETTINGS)(hyperliquid))


def solana(
    settings: Settings,
    rpc: Annotated[
        str,
        typer.Option(
            envvar="HEADWATER_SOLANA_RPC",
            help="URL of the node (http or https). Other users of this machine can read flags: the variable keeps a "
            "key secret.",
        ),
    ],
    name: Annotated[str, typer.Option(help="Whose position this is; default: solana, with the range.")] = "",
    commitment: Annotated[
        Literal["finalized", "confirmed"], typer.Option(help="Confirmed blocks come seconds earlier; one may vanish.")
    ] = "finalized",
    from_slot: Annotated[int | None, typer.Option(min=0, help="First slot, at the first start.")] = None,
    to_slot: Annotated[int | None, typer.Option(min=0, help="Last slot: ends there.")] = None,
    encoding: Annotated[
        Literal["json", "base64"], typer.Option(help="How the node sends transactions; records are the same.")
    ] = "json",
    rate: Annotated[float, typer.Option(min=0, help="Calls a second; 0 is no limit.")] = 0,
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Blocks fetched at once.")] = 4,
    poll_s: Annotated[float, typer.Option(help="Seconds between looks at the newest slot, up to 5.")] = 0.5,
    metrics_port: Annotated[int, typer.Option(min=0, help="Port of 127.0.0.1 with Prometheus series; 0: none.")] = 0,
) -> None:
    """Feed the transactions of Solana that are no votes from a node, or with --to-slot a range of its slots."""
    from headwater.ingest.options import default_name

    _run("solana", settings, rpc=rpc, name=name or default_name("solana", from_slot, to_slot), commitment=commitment,
         from_slot=from_slot, to_slot=to_slot, encoding=encoding, rate=rate, parallel=parallel, poll_s=poll_s,
         metrics_port=metrics_port)  # fmt: skip


app.command()(takes_settings(*_SETTINGS)(solana))


def _run(kind: str, settings: Settings, **options: Any) -> None:
    """Run an ingest of this kind, and tell what it stored. Raises SetupError when an option is not valid."""
    from headwater.app.ingest import run_ingest

    print(run_ingest(settings, *_opened(kind, settings, **options)).summary())


def _opened(kind: str, settings: Settings, **options: Any) -> "tuple[IngestOptions, Feed, Event]":
    """An ingest of this kind, and what ends it; the process logs. Raises SetupError when an option is not valid."""
    from headwater.app.ingest import stop_by_signal
    from headwater.app.ingests import KINDS
    from headwater.ingest.options import read_options
    from headwater.telemetry import configure_logging

    configure_logging(settings.log_level)
    model, open_feed = KINDS[kind]
    checked = read_options(model, options)
    stop = stop_by_signal()
    return checked, open_feed(checked, settings, stop), stop


@app.callback()
def _ingest() -> None:
    """Makes each command one of its own, however few there are."""
