"""Commands that write records of chain nodes to streams."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli.options import KAFKA, takes_settings
from headwater.settings import Settings

if TYPE_CHECKING:
    from threading import Event

    from headwater.ingest.base import ChainReader
    from headwater.ingest.options import IngestOptions

app = typer.Typer(
    help="Write records of chain nodes to streams; each ingest resumes where it stopped.", no_args_is_help=True
)

_SETTINGS = (*KAFKA, "log_level", "kafka_replication", "stream_bindings")


def run(settings: Settings, name: Annotated[str, typer.Argument(help="A name in the file of --ingests.")]) -> None:
    """Run one ingest of the file of --ingests, as `headwater up` does."""
    from headwater.app.ingest_kinds import load_ingest
    from headwater.app.run_ingest import run_ingest
    from headwater.app.stop_signals import stop_on_signals
    from headwater.logging_setup import configure_logging

    configure_logging(settings.log_level)
    options, open_reader = load_ingest(settings.ingests, name)
    stop = stop_on_signals()
    metrics = run_ingest(settings, options, open_reader(options, settings, stop), stop)
    print(f"{name}: {metrics.summary()}")


def evm(
    settings: Settings,
    chain: Annotated[str, typer.Option(help="An EVM chain of the catalog, such as base.")],
    rpc: Annotated[
        list[str],
        typer.Option(
            envvar="HEADWATER_EVM_RPC",
            help="URL of a node (http or https). Repeat the flag for fallback nodes. Other users of this machine can "
            "read flags, so set the variable instead when a URL contains a key; separate several URLs by spaces.",
        ),
    ],
    ws: Annotated[str, typer.Option(envvar="HEADWATER_EVM_WS", help="URL for new heads (ws or wss).")] = "",
    name: Annotated[
        str,
        typer.Option(
            help="Name of the ingest, under which its position is stored; default: evm-CHAIN, with the range of blocks."
        ),
    ] = "",
    confirmations: Annotated[
        int,
        typer.Option(
            min=0,
            help="A block is final when it is this many blocks below the head; 0 uses the node's tag (--finality).",
        ),
    ] = 0,
    finality: Annotated[
        str, typer.Option(help="Block tag that counts as final when --confirmations is 0: finalized or safe.")
    ] = "finalized",
    zerolag: Annotated[
        bool,
        typer.Option(
            help="Write the zerolag streams (records before finality) of all entities. Without it, only the zerolag "
            "streams are written that the file of --stream-bindings binds to topics of Headwater's own Kafka. With "
            "--to-block, none are written."
        ),
    ] = False,
    from_block: Annotated[
        int | None, typer.Option(min=0, help="First block to read when the ingest has no stored position.")
    ] = None,
    to_block: Annotated[int | None, typer.Option(min=0, help="Last block; the ingest ends after it.")] = None,
    rate: Annotated[float, typer.Option(min=0, help="Calls a second to each node; 0 is no limit.")] = 0,
    parallel: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 4,
    poll_s: Annotated[float, typer.Option(help="Polling interval for new blocks in seconds, without --ws.")] = 1.0,
    fetch: Annotated[str, typer.Option(help="Method that is tried first: receipts (default) or logs.")] = "",
    reorg_depth: Annotated[int, typer.Option(min=1, help="Blocks that zerolag streams can retract.")] = 256,
    metrics_port: Annotated[
        int,
        typer.Option(min=0, help="Port with Prometheus metrics, on the address in HEADWATER_METRICS_HOST; 0: none."),
    ] = 0,
) -> None:
    """Write the five streams of an EVM chain from a node.

    With --to-block, write only a range of blocks.
    """
    from headwater.app.run_ingest import run_ingest
    from headwater.cli.progress import range_progress
    from headwater.ingest.evm.chain_reader import EvmReader
    from headwater.ingest.options import default_name

    options, reader, stop = _open_ingest(
        "evm", settings, chain=chain, rpc=rpc, ws=ws or None,
        name=name or default_name(f"evm-{chain}", from_block, to_block),
        finality=confirmations if confirmations > 0 else finality,
        zerolag=zerolag, from_block=from_block, to_block=to_block, rate=rate, parallel=parallel, poll_s=poll_s,
        fetch=fetch or None, reorg_depth=reorg_depth, metrics_port=metrics_port,
    )  # fmt: skip
    assert isinstance(reader, EvmReader)
    with range_progress(from_block, to_block, "blocks") as progress:
        reader.report_progress = progress
        metrics = run_ingest(settings, options, reader, stop)
    print(metrics.summary())


def hyperliquid(
    settings: Settings,
    node_data: Annotated[Path | None, typer.Option(help="The folder that a node writes to (~/hl/data).")] = None,
    ws: Annotated[str | None, typer.Option(help="URL of a WebSocket API, for trades or blocks.")] = None,
    entity: Annotated[
        list[str] | None,
        typer.Option(
            help="Entity to write; may be repeated. Default: all with --node-data, trade with --ws.", show_default=False
        ),
    ] = None,
    coin: Annotated[
        list[str] | None,
        typer.Option(
            help="Coin to read with --ws; may be repeated. Default: all perpetuals that `meta` lists.",
            show_default=False,
        ),
    ] = None,
    from_start: Annotated[bool, typer.Option(help="On the first start, also read existing files.")] = False,
    name: Annotated[
        str, typer.Option(help="Name of the ingest: it resumes at the stored position of this name.")
    ] = "hyperliquid",
    metrics_port: Annotated[
        int, typer.Option(help="Port with Prometheus metrics, on the address in HEADWATER_METRICS_HOST; 0: none.")
    ] = 0,
) -> None:
    """Write the streams of Hyperliquid from a node's files or the WebSocket API.

    The streams contain blocks, trades, fills, orders and misc events.
    """
    _run("hyperliquid", settings, name=name, node_data=node_data, ws=ws, entities=entity or (), coins=coin or (),
         from_start=from_start, metrics_port=metrics_port)  # fmt: skip


def solana(
    settings: Settings,
    rpc: Annotated[
        str,
        typer.Option(
            envvar="HEADWATER_SOLANA_RPC",
            help="URL of the node (http or https). Other users of this machine can read flags, so set the variable "
            "instead when the URL contains a key.",
        ),
    ],
    name: Annotated[
        str,
        typer.Option(
            help="Name of the ingest, under which its position is stored; default: solana, with the range of slots."
        ),
    ] = "",
    commitment: Annotated[
        Literal["finalized", "confirmed"],
        typer.Option(help="Confirmed blocks arrive seconds earlier, but may be dropped by the chain later."),
    ] = "finalized",
    from_slot: Annotated[
        int | None, typer.Option(min=0, help="First slot to read when the ingest has no stored position.")
    ] = None,
    to_slot: Annotated[int | None, typer.Option(min=0, help="Last slot; the ingest ends after it.")] = None,
    encoding: Annotated[
        Literal["json", "base64"], typer.Option(help="How the node sends transactions; records are the same.")
    ] = "json",
    rate: Annotated[float, typer.Option(min=0, help="Calls a second; 0 is no limit.")] = 0,
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Blocks fetched at once.")] = 4,
    poll_s: Annotated[float, typer.Option(help="Polling interval for new slots in seconds, up to 5.")] = 0.5,
    metrics_port: Annotated[
        int,
        typer.Option(min=0, help="Port with Prometheus metrics, on the address in HEADWATER_METRICS_HOST; 0: none."),
    ] = 0,
) -> None:
    """Write the non-vote transactions of Solana from a node.

    With --to-slot, write only a range of slots.
    """
    from headwater.ingest.options import default_name

    _run("solana", settings, rpc=rpc, name=name or default_name("solana", from_slot, to_slot), commitment=commitment,
         from_slot=from_slot, to_slot=to_slot, encoding=encoding, rate=rate, parallel=parallel, poll_s=poll_s,
         metrics_port=metrics_port)  # fmt: skip


def _run(kind: str, settings: Settings, **options: Any) -> None:
    """Run an ingest of this kind, and print a summary of the records that it wrote.

    Raises SetupError when an option is invalid.
    """
    from headwater.app.run_ingest import run_ingest

    print(run_ingest(settings, *_open_ingest(kind, settings, **options)).summary())


def _open_ingest(kind: str, settings: Settings, **options: Any) -> "tuple[IngestOptions, ChainReader, Event]":
    """Configure logging, validate the options and open the chain reader.

    Raises SetupError when an option is invalid. Returns the options, the chain reader and the event that stops it.
    """
    from headwater.app.ingest_kinds import KINDS
    from headwater.app.stop_signals import stop_on_signals
    from headwater.ingest.options import read_options
    from headwater.logging_setup import configure_logging

    configure_logging(settings.log_level)
    model, open_reader = KINDS[kind]
    valid_options = read_options(model, options)
    stop = stop_on_signals()
    return valid_options, open_reader(valid_options, settings, stop), stop


app.command()(takes_settings(*_SETTINGS, "ingests")(run))
app.command()(takes_settings(*_SETTINGS)(evm))
app.command()(takes_settings(*_SETTINGS)(hyperliquid))
app.command()(takes_settings(*_SETTINGS)(solana))
