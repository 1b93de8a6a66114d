"""A client of librdkafka that workers use directly: made from settings, and what its callbacks note.

`brokers/consumer.py` and `brokers/producer.py` build on it. Administration stays with confluent-kafka's Python.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client import ClientSettings
from headwater.native.kafka import Event, EventKind, Events, library, text_of
from headwater.native.library import FFI, NULL, kernel

log = structlog.get_logger(__name__)

PRODUCER: Final = 0
CONSUMER: Final = 1
DESTROY_S: Final = 3.0
"""How long the destruction of a client may take: librdkafka can wait for good for a group that it has lost."""
_ERROR_BYTES: Final = 512
_CONF_OK: Final = 0
_NO_CONSUMER_CLOSE: Final = 0x8

_PYTHON_ONLY: Final = frozenset({"error_cb", "oauth_cb", "logger"})

Token = tuple[Any, ...]
"""As confluent-kafka's `oauth_cb` returns it: token, seconds since the epoch of its end, and perhaps a principal and
extensions."""


class Handle:
    """One librdkafka client. settings: as confluent-kafka takes them, with `error_cb` and `oauth_cb`.

    fatal: the error that has made the client useless, if one has.
    One thread uses it. Raises KafkaException for settings that librdkafka refuses. A closed client that has not ended
    within DESTROY_S is not freed before the process ends, and may stay a member of its group until then.
    """

    def __init__(self, kind: int, settings: ClientSettings) -> None:
        self._library = library()
        self._events = Events()
        self._on_error: Callable[[KafkaError], None] = settings["error_cb"]
        self.fatal: KafkaError | None = None
        self._make_token: Callable[[str], Token] | None = settings.get("oauth_cb")
        self._open_client = self._new(kind, {name: settings[name] for name in settings.keys() - _PYTHON_ONLY})
        self._library.rd_kafka_set_log_queue(self._client, NULL)
        if self._make_token is not None:
            self._set_token(str(settings.get("sasl.oauthbearer.config", "")))

    def _new(self, kind: int, settings: ClientSettings) -> Any:
        conf, reason = self._configured(kind, settings), FFI.new("char[]", _ERROR_BYTES)
        client = self._library.rd_kafka_new(kind, conf, reason, _ERROR_BYTES)
        if client == NULL:
            self._library.rd_kafka_conf_destroy(conf)
            raise refused(KafkaError._INVALID_ARG, text_of(reason))
        return client

    def _configured(self, kind: int, settings: ClientSettings) -> Any:
        functions, callbacks = self._library, kernel()
        conf, reason = functions.rd_kafka_conf_new(), FFI.new("char[]", _ERROR_BYTES)
        for name, value in (settings | {"log.queue": True}).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if functions.rd_kafka_conf_set(conf, name.encode(), text.encode(), reason, _ERROR_BYTES) != _CONF_OK:
                functions.rd_kafka_conf_destroy(conf)
                raise refused(KafkaError._INVALID_ARG, text_of(reason))
        functions.rd_kafka_conf_set_opaque(conf, self._events.struct)
        functions.rd_kafka_conf_set_error_cb(conf, FFI.addressof(callbacks, "kafka_note_error"))
        functions.rd_kafka_conf_set_log_cb(conf, FFI.addressof(callbacks, "kafka_note_log"))
        if self._make_token is not None:
            note = FFI.addressof(callbacks, "kafka_note_token")
            functions.rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, note)
        if kind == CONSUMER:
            functions.rd_kafka_conf_set_rebalance_cb(conf, FFI.addressof(callbacks, "kafka_note_rebalance"))
            functions.rd_kafka_conf_set_offset_commit_cb(conf, FFI.addressof(callbacks, "kafka_note_commit"))
        else:
            functions.rd_kafka_conf_set_dr_msg_cb(conf, FFI.addressof(callbacks, "kafka_note_delivery"))
        return conf

    # What callbacks noted.

    def _take_events(self) -> None:
        for event in self._events.take():
            match event.kind:
                case EventKind.LOG:
                    log.debug("librdkafka", message=event.text, severity=event.code)
                case EventKind.ERROR:
                    self._hear(event)
                case EventKind.TOKEN:
                    self._set_token(event.text)
                case _:
                    self._take(event)
        if dropped := self._events.dropped():
            log.debug("events of Kafka's client found no room", count=dropped)

    def _hear(self, event: Event) -> None:
        if event.code == KafkaError._FATAL:
            self.fatal = self.fatal_error()
        else:
            self._on_error(KafkaError(event.code, event.text))

    def fatal_error(self) -> KafkaError:
        """What is behind the error code _FATAL: an error that has made the client useless."""
        reason = FFI.new("char[]", _ERROR_BYTES)
        code = self._library.rd_kafka_fatal_error(self._client, reason, _ERROR_BYTES)
        return KafkaError(code, text_of(reason), True)

    def _take(self, event: Event) -> None:
        """Take a rebalance, the outcome of a commit, or a failed delivery."""

    def _set_token(self, config: str) -> None:
        """Get a token for OAUTHBEARER. What fails is told to librdkafka, which asks again after some seconds."""
        assert self._make_token is not None
        reason = FFI.new("char[]", _ERROR_BYTES)
        try:
            value, ends_at, *more = self._make_token(config)
        except Exception as error:  # noqa: BLE001 - whatever an identity provider's library raises
            log.warning("no token for Kafka", reason=str(error))
            self._library.rd_kafka_oauthbearer_set_token_failure(self._client, str(error).encode() or b"no token")
            return
        principal = str(more[0]) if more else ""
        extensions: dict[str, str] = more[1] if len(more) > 1 else {}
        pairs = [FFI.new("char[]", text.encode()) for pair in extensions.items() for text in pair]
        code = self._library.rd_kafka_oauthbearer_set_token(
            self._client,
            value.encode(),
            int(ends_at * 1000),
            principal.encode(),
            FFI.new("const char *[]", pairs),
            len(pairs),
            reason,
            _ERROR_BYTES,
        )
        if code:
            log.warning("Kafka's client refuses a token", reason=text_of(reason))
            self._library.rd_kafka_oauthbearer_set_token_failure(self._client, reason)

    # Calls.

    def _check(self, code: int, text: str = "") -> None:
        """Raise KafkaException for an error code."""
        if code:
            raise refused(code, text)

    def _check_error(self, error: Any) -> None:
        """Raise KafkaException for an error object, which is freed."""
        if error == NULL:
            return
        functions = self._library
        made = KafkaError(
            functions.rd_kafka_error_code(error),
            text_of(functions.rd_kafka_error_string(error)),
            bool(functions.rd_kafka_error_is_fatal(error)),
            bool(functions.rd_kafka_error_is_retriable(error)),
            bool(functions.rd_kafka_error_txn_requires_abort(error)),
        )
        functions.rd_kafka_error_destroy(error)
        raise KafkaException(made)

    @property
    def closed(self) -> bool:
        """Whether the client is freed."""
        return bool(self._open_client == NULL)

    @property
    def _client(self) -> Any:
        """librdkafka's handle. A freed one would end the process."""
        if self._open_client == NULL:
            raise RuntimeError("the Kafka client is closed")
        return self._open_client

    def _destroy(self) -> bool:
        """Free the client; see the class."""
        client, self._open_client = self._client, NULL
        self._events.take()  # lists of partitions hold the client
        thread = threading.Thread(target=self._free, args=[client], name="freeing-client", daemon=True)
        thread.start()
        thread.join(DESTROY_S)
        if thread.is_alive():
            log.warning("Kafka's client does not end; it is left to the end of the process", waited_s=DESTROY_S)
        return not thread.is_alive()

    def _free(self, client: Any) -> None:
        self._library.rd_kafka_destroy_flags(client, _NO_CONSUMER_CLOSE)


def refused(code: int, text: str = "") -> KafkaException:
    """The exception for an error code of librdkafka."""
    return KafkaException(KafkaError(code, text or None))


def milliseconds(timeout_s: float) -> int:
    """A timeout as librdkafka takes it."""
    return max(0, int(timeout_s * 1000))
