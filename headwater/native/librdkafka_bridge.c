// Moves columns of records in and out of librdkafka. `kafka_set_functions` passes librdkafka's functions. librdkafka
// runs callbacks inside its own calls, on the caller's thread, so a callback only queues an event.

#include "common.h"
#include "librdkafka.h"

enum { TYPE_RKT = 2, TYPE_PARTITION, TYPE_VALUE, TYPE_KEY, TYPE_OPAQUE, TYPE_FLAGS, TYPE_TIMESTAMP, TYPE_HEADER };
enum {
    MSG_F_COPY = 2,
    PARTITION_EOF = -191,
    QUEUE_FULL = -184,
    ASSIGN_PARTITIONS = -175,
    FIRST_CHUNK = 8,  // messages that are dequeued at once while fewer records than this have been dequeued
    MAX_CHUNK = 64,
    PREFETCH_DISTANCE = 8,  // how many messages before its use a message is loaded into the CPU's caches
    MAX_HEADERS = 16,
    MAX_OUTPUT_ID_BYTES = 320,  // of "<prefix><partition>/<offset>/<index>"
    MAX_NUMBERS_BYTES = 64,  // of the part "<partition>/<offset>/<index>"
    EVENT_CAPACITY = sizeof ((KafkaEvents *)0)->events / sizeof(KafkaEvent),
    // Log lines and errors leave this many places for the other events.
    RESERVED_EVENTS = 128,
    // All other events leave these places for rebalances. A dropped rebalance would never be answered, and librdkafka
    // waits for each answer before the next rebalance.
    RESERVED_REBALANCES = 8,
};

static KafkaFunctions kafka;

void kafka_set_functions(const KafkaFunctions *functions) { kafka = *functions; }

// Events.

static void copy_text(char *to, int64_t capacity, const char *text) {
    int64_t size = 0;
    while (text && text[size] && size < capacity - 1) {
        to[size] = text[size];
        size++;
    }
    to[size] = 0;
}

// Returns how many events the queue may contain before it is full for events of a kind.
static int capacity_for(int kind) {
    if (kind == KAFKA_REBALANCE) return EVENT_CAPACITY;
    if (kind == KAFKA_LOG || kind == KAFKA_ERROR) return EVENT_CAPACITY - RESERVED_EVENTS;
    return EVENT_CAPACITY - RESERVED_REBALANCES;
}

// Adds an event. Returns NULL when the queue is full.
static KafkaEvent *queue_event(KafkaEvents *events, int kind, int code, const char *text) {
    if (events->count >= capacity_for(kind)) {
        events->dropped++;
        return 0;
    }
    KafkaEvent *event = &events->events[events->count++];
    event->kind = kind;
    event->code = code;
    event->lost = 0;
    event->partitions = 0;
    copy_text(event->text, sizeof event->text, text);
    return event;
}

// Ends a wait of `kafka_fetch_messages`. `rd_kafka_yield` can't be used: after it, `rd_kafka_consume_batch_queue` of
// librdkafka 2.15 lost the next message of the queue, and later versions were not checked.
static void wake_reader(const KafkaEvents *events) {
    if (events->queue) kafka.queue_yield(events->queue);
}

void kafka_on_rebalance(rd_kafka_t *client, int code, rd_kafka_topic_partition_list_t *partitions, void *opaque) {
    KafkaEvents *events = opaque;
    if (events->closing) {
        rd_kafka_error_t *error = code == ASSIGN_PARTITIONS ? 0 : kafka.incremental_unassign(client, partitions);
        if (error) {
            kafka.error_destroy(error);
            kafka.assign(client, 0);
        }
        return;
    }
    KafkaEvent *event = queue_event(events, KAFKA_REBALANCE, code, "");
    if (!event) return;
    event->lost = kafka.assignment_lost(client);
    event->partitions = kafka.topic_partition_list_copy(partitions);
    wake_reader(events);
}

void kafka_on_commit(rd_kafka_t *client, int code, rd_kafka_topic_partition_list_t *partitions, void *opaque) {
    (void)client;
    KafkaEvents *events = opaque;
    KafkaEvent *event = queue_event(events, KAFKA_COMMIT, code, "");
    if (event && partitions) event->partitions = kafka.topic_partition_list_copy(partitions);
}

void kafka_on_error(rd_kafka_t *client, int code, const char *reason, void *opaque) {
    (void)client;
    queue_event(opaque, KAFKA_ERROR, code, reason);
    wake_reader(opaque);
}

void kafka_on_log(const rd_kafka_t *client, int level, const char *facility, const char *text) {
    (void)facility;
    // With the setting log.queue, this callback runs on the thread that polls the client. `client` is NULL for lines
    // that librdkafka logs before the client exists.
    KafkaEvents *events = client ? kafka.opaque(client) : 0;
    if (events) queue_event(events, KAFKA_LOG, level, text);
}

void kafka_on_token_refresh(rd_kafka_t *client, const char *config, void *opaque) {
    (void)client;
    queue_event(opaque, KAFKA_TOKEN, 0, config);
    wake_reader(opaque);
}

static void add_failure(KafkaEvents *events, int64_t record_id, int code) {
    if (events->failure_count < events->failure_capacity)
        events->failures[events->failure_count++] = (KafkaDeliveryFailure){record_id, code};
    else
        events->dropped++;
}

// There is always room for the failure: one call of librdkafka reports at most the records that its queue can hold,
// Python takes the failures after each such call, and `kafka_enqueue` leaves half of the room free.
void kafka_on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    KafkaEvents *events = opaque;
    if (!message->err) events->acknowledged++;
    else add_failure(events, (int64_t)(intptr_t)message->_private, message->err);
}

// Records that are read.

static void add_error(KafkaFetchedMessages *fetched, const rd_kafka_message_t *message) {
    const int64_t i = fetched->errors_count++;
    fetched->errors[i].code = message->err;
    fetched->errors[i].partition = message->partition;
    fetched->errors[i].offset = message->offset;
    copy_text(fetched->errors[i].text, sizeof fetched->errors[i].text, message->payload);
}

// Stores the end offset of a partition. It replaces an earlier end offset of this partition.
static void add_end_offset(KafkaFetchedMessages *fetched, const rd_kafka_message_t *message) {
    int64_t i = 0;
    while (i < fetched->ends_count && fetched->ends[i].partition != message->partition) i++;
    fetched->ends[i].partition = message->partition;
    fetched->ends[i].offset = message->offset;
    if (i == fetched->ends_count) fetched->ends_count++;
}

// Separates the `count` newest messages: keeps the records, and stores errors and ends of partitions on their own.
static void separate_records(KafkaFetchedMessages *fetched, int64_t count) {
    rd_kafka_message_t **const messages = fetched->messages + fetched->count;
    int64_t record_count = 0;
    for (int64_t i = 0; i < count; i++) {
        rd_kafka_message_t *message = messages[i];
        if (message->err) {
            (message->err == PARTITION_EOF ? add_end_offset : add_error)(fetched, message);
            kafka.message_destroy(message);
            continue;
        }
        fetched->values_size += (int64_t)message->len + 1;
        fetched->keys_size += (int64_t)message->key_len + 1;
        messages[record_count++] = message;
    }
    fetched->count += record_count;
}

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

// Returns how many messages to dequeue next, estimated from the rest of the byte limit and the average size of the
// messages so far. Each message may be an error or an end, so each needs a free place for either.
static int64_t next_chunk(const KafkaFetchedMessages *fetched, int64_t max_records, int64_t max_bytes) {
    const int64_t free_errors = (int64_t)(sizeof fetched->errors / sizeof *fetched->errors) - fetched->errors_count;
    const int64_t free_ends = (int64_t)(sizeof fetched->ends / sizeof *fetched->ends) - fetched->ends_count;
    const int64_t bytes = fetched->values_size + fetched->keys_size;
    int64_t chunk = fetched->count < FIRST_CHUNK ? FIRST_CHUNK : MAX_CHUNK;
    if (bytes >= max_bytes) return 0;
    if (fetched->count) chunk = min_i64(chunk, (max_bytes - bytes) / (bytes / fetched->count + 1) + 1);
    chunk = min_i64(chunk, min_i64(free_errors, free_ends));
    return min_i64(chunk, min_i64(max_records, fetched->capacity) - fetched->count);
}

// Dequeues messages until there are `max_messages` or the time is over. Returns how many messages were dequeued.
static int64_t dequeue(KafkaFetchedMessages *fetched, int64_t max_messages, int timeout_ms) {
    rd_kafka_message_t **free_slots = fetched->messages + fetched->count;
    const int64_t count = kafka.consume_batch_queue(fetched->queue, timeout_ms, free_slots, (size_t)max_messages);
    if (count > 0) separate_records(fetched, count);
    return count;
}

static void dequeue_available(KafkaFetchedMessages *fetched, int64_t max_records, int64_t max_bytes) {
    int64_t chunk;
    do chunk = next_chunk(fetched, max_records, max_bytes);
    while (chunk > 0 && dequeue(fetched, chunk, 0) == chunk);
}

// Waits for a first message, and dequeues the messages that are available then. Stops at `max_records` records, or at
// about `max_bytes`, but not before the first record. Returns the number of records. Only the first call of `dequeue`
// waits, and a callback's queue_yield ends that wait. A yield during a later call has no effect, or it ends the next
// wait early.
int64_t kafka_fetch_messages(KafkaFetchedMessages *fetched, int64_t max_records, int64_t max_bytes, int timeout_ms) {
    fetched->count = fetched->values_size = fetched->keys_size = fetched->errors_count = fetched->ends_count = 0;
    if (dequeue(fetched, 1, timeout_ms) > 0) dequeue_available(fetched, max_records, max_bytes);
    return fetched->count;
}

static uint8_t *append_line(uint8_t *out, const void *text, size_t size) {
    out = append_bytes(out, text, (int64_t)size);
    *out = '\n';
    return out + 1;
}

// Copies the records and frees their messages. Each message is freed at once, while it is in the CPU's caches.
void kafka_copy_and_free_messages(KafkaFetchedMessages *fetched, uint8_t *values, int32_t *value_sizes, uint8_t *keys,
                                  int32_t *key_sizes, int64_t *timestamps, int64_t *partitions, int64_t *offsets,
                                  int32_t *leader_epochs) {
    for (int64_t i = 0; i < fetched->count; i++) {
        rd_kafka_message_t *message = fetched->messages[i];
        int kind;
        if (i + PREFETCH_DISTANCE < fetched->count) __builtin_prefetch(fetched->messages[i + PREFETCH_DISTANCE]);
        const int64_t timestamp_ms = kafka.message_timestamp(message, &kind);
        value_sizes[i] = message->payload ? (int32_t)message->len : -1;
        values = append_line(values, message->payload, message->len);
        key_sizes[i] = message->key ? (int32_t)message->key_len : -1;
        keys = append_line(keys, message->key, message->key_len);
        timestamps[i] = timestamp_ms > 0 ? timestamp_ms : 0;
        partitions[i] = message->partition;
        offsets[i] = message->offset;
        leader_epochs[i] = kafka.message_leader_epoch(message);
        kafka.message_destroy(message);
    }
    fetched->count = 0;
}

static int64_t string_length(const char *text) {
    int64_t size = 0;
    while (text[size]) size++;
    return size;
}

typedef struct {
    const char *name;
    const void *value;
    size_t size;
} Header;

// Reads a header of a message by its index. Returns 0 when the message has no such header.
static int read_header(const KafkaFetchedMessages *fetched, int64_t row, int32_t index, Header *header) {
    rd_kafka_headers_t *headers;
    if (kafka.message_headers(fetched->messages[row], &headers)) return 0;
    return !kafka.header_get_all(headers, (size_t)index, &header->name, &header->value, &header->size);
}

void kafka_measure_headers(const KafkaFetchedMessages *fetched, int32_t *counts, int64_t *count, int64_t *names_size,
                           int64_t *values_size) {
    Header header;
    *count = *names_size = *values_size = 0;
    for (int64_t i = 0; i < fetched->count; i++) {
        for (counts[i] = 0; read_header(fetched, i, counts[i], &header); counts[i]++) {
            *names_size += string_length(header.name) + 1;
            *values_size += (int64_t)header.size + 1;
        }
        *count += counts[i];
    }
}

void kafka_copy_headers(const KafkaFetchedMessages *fetched, uint8_t *names, int32_t *name_sizes, uint8_t *values,
                        int32_t *value_sizes) {
    Header header;
    for (int64_t i = 0; i < fetched->count; i++) {
        for (int32_t index = 0; read_header(fetched, i, index, &header); index++) {
            const int64_t name_size = string_length(header.name);
            *name_sizes++ = (int32_t)name_size;
            names = append_line(names, header.name, (size_t)name_size);
            *value_sizes++ = header.value ? (int32_t)header.size : -1;
            values = append_line(values, header.value, header.size);
        }
    }
}

void kafka_free_messages(KafkaFetchedMessages *fetched) {
    for (int64_t i = 0; i < fetched->count; i++) kafka.message_destroy(fetched->messages[i]);
    fetched->count = 0;
}

// Records that are written.

// Returns the argument of produceva for the value or the key of a record.
static rd_kafka_vu_t bytes_argument(int type, const KafkaBytesColumn *column, int64_t row) {
    rd_kafka_vu_t argument = {.vtype = type};
    if (column->sizes[row] >= 0) {
        argument.u.mem.ptr = (void *)(column->buffer + column->starts[row]);
        argument.u.mem.size = (size_t)column->sizes[row];
    }
    return argument;
}

// Writes "<prefix><partition>/<offset>/<index>" and returns its size.
static int64_t write_output_id(uint8_t *out, const KafkaHeaderColumn *header, int64_t row) {
    uint8_t *end = append_bytes(out, header->prefix, header->prefix_size);
    end = append_decimal(end, header->partitions[row]);
    *end++ = '/';
    end = append_decimal(end, header->offsets[row]);
    *end++ = '/';
    return append_decimal(end, header->indexes[row]) - out;
}

// Appends the record's headers to the arguments of produceva. Returns the new number of arguments. `output_ids` has
// room for the value of each header, because some values are formatted here.
static int64_t add_headers(const KafkaRecords *records, int64_t row, rd_kafka_vu_t *arguments, int64_t count,
                           uint8_t output_ids[][MAX_OUTPUT_ID_BYTES]) {
    for (int64_t i = 0; i < records->headers_count; i++) {
        const KafkaHeaderColumn *header = &records->headers[i];
        const void *value = output_ids[i];
        int64_t size;
        if (header->values.sizes) {
            size = header->values.sizes[row];
            value = header->values.buffer + header->values.starts[row];
        } else {
            size = write_output_id(output_ids[i], header, row);
        }
        if (size < 0) continue;
        rd_kafka_vu_t *argument = &arguments[count++];
        argument->vtype = TYPE_HEADER;
        argument->u.header.name = header->name;
        argument->u.header.val = value;
        argument->u.header.size = size;
    }
    return count;
}

static rd_kafka_error_t *produce_row(const KafkaRecords *records, int64_t row) {
    uint8_t output_ids[MAX_HEADERS][MAX_OUTPUT_ID_BYTES];
    rd_kafka_vu_t arguments[7 + MAX_HEADERS];
    arguments[0] = (rd_kafka_vu_t){.vtype = TYPE_RKT, .u.rkt = records->topic};
    arguments[1] = (rd_kafka_vu_t){.vtype = TYPE_PARTITION, .u.i32 = (int32_t)records->partitions[row]};
    arguments[2] = (rd_kafka_vu_t){.vtype = TYPE_FLAGS, .u.i = MSG_F_COPY};
    arguments[3] = (rd_kafka_vu_t){.vtype = TYPE_TIMESTAMP, .u.i64 = records->timestamps[row]};
    arguments[4] = (rd_kafka_vu_t){.vtype = TYPE_OPAQUE, .u.ptr = (void *)(intptr_t)(records->first_record_id + row)};
    arguments[5] = bytes_argument(TYPE_VALUE, &records->values, row);
    arguments[6] = bytes_argument(TYPE_KEY, &records->keys, row);
    const int64_t count = add_headers(records, row, arguments, 7, output_ids);
    return kafka.produceva(records->client, arguments, (size_t)count);
}

// Queues the records from row `first` on until the client's queue is full. Returns the first row that is not queued, or
// -1 for too many headers or too long a prefix. A record that librdkafka rejects at once counts as queued, and is added
// to the failures. If half of the room for failures is used, the client's queue counts as full.
int64_t kafka_enqueue(KafkaEvents *events, const KafkaRecords *records, int64_t first) {
    if (records->headers_count > MAX_HEADERS) return -1;
    for (int64_t i = 0; i < records->headers_count; i++)
        if (records->headers[i].prefix_size > MAX_OUTPUT_ID_BYTES - MAX_NUMBERS_BYTES) return -1;
    for (int64_t row = first; row < records->count; row++) {
        rd_kafka_error_t *error = produce_row(records, row);
        if (!error) continue;
        const int code = kafka.error_code(error);
        kafka.error_destroy(error);
        if (code == QUEUE_FULL || events->failure_count >= events->failure_capacity / 2) return row;
        add_failure(events, records->first_record_id + row, code);
    }
    return records->count;
}
