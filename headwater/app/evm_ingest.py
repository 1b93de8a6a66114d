"""Opens the chain reader of an EVM ingest."""

from collections.abc import Iterator, Sequence
from threading import Event

from headwater.app.abis import load_abis
from headwater.app.endpoints import Endpoints
from headwater.app.stream_bindings import load_bindings, zerolag_topic
from headwater.app.token_lists import read_tokens
from headwater.brokers.read_to_end import read_since
from headwater.errors import SetupError
from headwater.ingest.base import StreamRecord
from headwater.ingest.evm.chain_reader import EvmReader
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.head_blocks import ZEROLAG_SUFFIX
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.evm.records import ENTITIES
from headwater.ingest.options import IngestOptions
from headwater.model.binding import Bindings
from headwater.model.stream import find_chain
from headwater.settings import Settings


def open_evm(options: IngestOptions, settings: Settings, stop: Event) -> EvmReader:
    """Open the chain reader of an EVM chain.

    Raises SetupError when the chain has no EVM streams, or when the imported ABIs or tokens can't be read.
    """
    assert isinstance(options, EvmOptions)
    chain = find_chain(options.chain)
    if chain is None or any(chain.entity(name) is None for name in ENTITIES):
        raise SetupError(f"{options.chain} is not an EVM chain of the catalog (`headwater ingest evm --chain base`).")
    bindings = load_bindings(settings)
    access = Endpoints.from_settings(settings).admin_kafka_access()

    def read_written_records(streams: Sequence[str], since_ms: int) -> Iterator[StreamRecord]:
        """Yield the records that were written to these zerolag streams since a time."""
        by_topic = {
            zerolag_topic(bindings, options.chain, stream.removesuffix(ZEROLAG_SUFFIX)): stream for stream in streams
        }
        for topic, key, value in read_since(access, list(by_topic), since_ms, stop):
            if key is not None and value is not None:  # other writers may omit them
                yield StreamRecord(by_topic[topic], key, value)

    return EvmReader(
        options=options,
        decoder=Decoder(load_abis(settings)),
        tokens=read_tokens(settings).get(options.chain, {}),
        zerolag=zerolag_entities(options, bindings),
        read_written_records=read_written_records,
        stop=stop,
    )


def zerolag_entities(options: EvmOptions, bindings: Bindings) -> list[str]:
    """Return the entities whose zerolag streams are written.

    Without --zerolag, only zerolag streams that are bound to topics of the installation's own Kafka are written. An
    ingest of a range of blocks writes none.
    """
    if options.to_block is not None:
        return []
    return [
        name for name in ENTITIES if options.zerolag or bindings.installation_topic(options.chain, name, zerolag=True)
    ]
