"""The base class of the librdkafka consumer and producer that workers use.

`brokers/consumer.py` and `brokers/producer.py` derive from it. Administration uses confluent-kafka's AdminClient.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client_settings import ClientSettings
from headwater.native.ffi import FFI, NULL, native_library
from headwater.native.librdkafka import ClientEvent, EventKind, EventQueue, decode_c_string, librdkafka

log = structlog.get_logger(__name__)

PRODUCER: Final = 0
CONSUMER: Final = 1
DESTROY_TIMEOUT_S: Final = 3.0
"""How long to wait for the destruction of a client.

librdkafka can hang in it after the member was fenced, or has lost its group coordinator.
"""
_ERROR_BYTES: Final = 512
_CONF_OK: Final = 0
_NO_CONSUMER_CLOSE: Final = 0x8

_PYTHON_ONLY: Final = frozenset({"error_cb", "oauth_cb", "logger"})

OAuthToken = tuple[Any, ...]
"""What an `oauth_cb` of confluent-kafka returns: the token, its expiry in seconds since the epoch, and optionally the
principal and the extensions."""


class LibrdkafkaClient:
    """Creates a librdkafka client from settings, and dispatches its events. Not thread-safe.

    Raises KafkaException for settings that librdkafka rejects. A closed client whose destruction takes longer than
    DESTROY_TIMEOUT_S is freed later, or when the process ends; until then it may remain a member of its group.

    Args:
        kind: PRODUCER or CONSUMER.
        settings: As confluent-kafka takes them, with `error_cb` and optionally `oauth_cb`.
        events: The queue to which the callbacks of the client add events.

    Attributes:
        fatal: The fatal error of the client, or None.
    """

    def __init__(self, kind: int, settings: ClientSettings, events: EventQueue) -> None:
        self._librdkafka = librdkafka()
        self._events = events
        self._on_error: Callable[[KafkaError], None] = settings["error_cb"]
        self.fatal: KafkaError | None = None
        self._request_token: Callable[[str], OAuthToken] | None = settings.get("oauth_cb")
        self._handle = self._create_client(kind, {name: settings[name] for name in settings.keys() - _PYTHON_ONLY})
        self._librdkafka.rd_kafka_set_log_queue(self._client, NULL)
        if self._request_token is not None:
            self._set_token(str(settings.get("sasl.oauthbearer.config", "")))

    def _create_client(self, kind: int, settings: ClientSettings) -> Any:
        conf, reason = self._create_conf(kind, settings), FFI.new("char[]", _ERROR_BYTES)
        client = self._librdkafka.rd_kafka_new(kind, conf, reason, _ERROR_BYTES)
        if client == NULL:
            self._librdkafka.rd_kafka_conf_destroy(conf)
            raise kafka_exception(KafkaError._INVALID_ARG, decode_c_string(reason))
        return client

    def _create_conf(self, kind: int, settings: ClientSettings) -> Any:
        functions, callbacks = self._librdkafka, native_library()
        conf, reason = functions.rd_kafka_conf_new(), FFI.new("char[]", _ERROR_BYTES)
        for name, value in (settings | {"log.queue": True}).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if functions.rd_kafka_conf_set(conf, name.encode(), text.encode(), reason, _ERROR_BYTES) != _CONF_OK:
                functions.rd_kafka_conf_destroy(conf)
                raise kafka_exception(KafkaError._INVALID_ARG, decode_c_string(reason))
        functions.rd_kafka_conf_set_opaque(conf, self._events.struct)
        functions.rd_kafka_conf_set_error_cb(conf, FFI.addressof(callbacks, "kafka_on_error"))
        functions.rd_kafka_conf_set_log_cb(conf, FFI.addressof(callbacks, "kafka_on_log"))
        if self._request_token is not None:
            callback = FFI.addressof(callbacks, "kafka_on_token_refresh")
            functions.rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, callback)
        if kind == CONSUMER:
            functions.rd_kafka_conf_set_rebalance_cb(conf, FFI.addressof(callbacks, "kafka_on_rebalance"))
        else:
            functions.rd_kafka_conf_set_dr_msg_cb(conf, FFI.addressof(callbacks, "kafka_on_delivery"))
        return conf

    # Events.

    def _handle_events(self) -> None:
        for event in self._events.take_events():
            match event.kind:
                case EventKind.LOG:
                    log.debug("librdkafka", message=event.text, severity=event.code)
                case EventKind.ERROR:
                    self._handle_error(event)
                case EventKind.TOKEN:
                    self._set_token(event.text)
                case _:
                    self._handle_event(event)
        if dropped := self._events.take_dropped_count():
            log.debug("events of the Kafka client were dropped because the queue was full", count=dropped)

    def _handle_error(self, event: ClientEvent) -> None:
        if event.code == KafkaError._FATAL:
            self.fatal = self.read_fatal_error()
        else:
            self._on_error(KafkaError(event.code, event.text))

    def read_fatal_error(self) -> KafkaError:
        """Return the fatal error of the client, for which librdkafka reports only the code _FATAL."""
        reason = FFI.new("char[]", _ERROR_BYTES)
        code = self._librdkafka.rd_kafka_fatal_error(self._client, reason, _ERROR_BYTES)
        return KafkaError(code, decode_c_string(reason), True)

    def _handle_event(self, event: ClientEvent) -> None:
        """Handle a rebalance. The consumer overrides this method."""

    def _set_token(self, config: str) -> None:
        """Get a token for OAUTHBEARER and pass it to librdkafka.

        After a failure, librdkafka requests a token again some seconds later.
        """
        assert self._request_token is not None
        reason = FFI.new("char[]", _ERROR_BYTES)
        try:
            value, expires_at, *optional = self._request_token(config)
        except Exception as error:  # noqa: BLE001 - whatever an identity provider's library raises
            log.warning("getting an OAuth token for Kafka failed; it is retried", reason=str(error))
            self._librdkafka.rd_kafka_oauthbearer_set_token_failure(self._client, str(error).encode() or b"no token")
            return
        principal = str(optional[0]) if optional else ""
        extensions: dict[str, str] = optional[1] if len(optional) > 1 else {}
        pairs = [FFI.new("char[]", text.encode()) for pair in extensions.items() for text in pair]
        code = self._librdkafka.rd_kafka_oauthbearer_set_token(
            self._client,
            value.encode(),
            int(expires_at * 1000),
            principal.encode(),
            FFI.new("const char *[]", pairs),
            len(pairs),
            reason,
            _ERROR_BYTES,
        )
        if code:
            log.warning("librdkafka rejected the OAuth token", reason=decode_c_string(reason))
            self._librdkafka.rd_kafka_oauthbearer_set_token_failure(self._client, reason)

    # Calls.

    def _check(self, code: int, text: str = "") -> None:
        """Raise KafkaException for an error code."""
        if code:
            raise kafka_exception(code, text)

    def _check_error(self, error: Any) -> None:
        """Raise KafkaException for an error object, and free the object."""
        if error == NULL:
            return
        functions = self._librdkafka
        kafka_error = KafkaError(
            functions.rd_kafka_error_code(error),
            decode_c_string(functions.rd_kafka_error_string(error)),
            bool(functions.rd_kafka_error_is_fatal(error)),
            bool(functions.rd_kafka_error_is_retriable(error)),
            bool(functions.rd_kafka_error_txn_requires_abort(error)),
        )
        functions.rd_kafka_error_destroy(error)
        raise KafkaException(kafka_error)

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        return bool(self._handle == NULL)

    @property
    def _client(self) -> Any:
        """The handle of the librdkafka client.

        Raises RuntimeError when the client is closed: using a freed handle crashes the process.
        """
        if self._handle == NULL:
            raise RuntimeError("the Kafka client is closed")
        return self._handle

    def _destroy(self) -> bool:
        """Destroy the client, and return whether it was freed in time."""
        client, self._handle = self._client, NULL
        self._events.take_events()  # frees the partition lists of pending events, which hold references to the client
        thread = threading.Thread(target=self._free, args=[client], name="destroy-client", daemon=True)
        thread.start()
        thread.join(DESTROY_TIMEOUT_S)
        if thread.is_alive():
            log.warning("the destruction of a Kafka client hangs", waited_s=DESTROY_TIMEOUT_S)
        return not thread.is_alive()

    def _free(self, client: Any) -> None:
        self._librdkafka.rd_kafka_destroy_flags(client, _NO_CONSUMER_CLOSE)


def kafka_exception(code: int, text: str = "") -> KafkaException:
    """Return the exception for an error code of librdkafka."""
    return KafkaException(KafkaError(code, text or None))
