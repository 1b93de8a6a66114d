// Moves columns of records in and out of librdkafka, whose functions it is given. Callbacks run inside librdkafka's
// calls, on the thread that makes them, so they only note what happened.

#include "kernel.h"
#include "kafka.h"

enum { TYPE_RKT = 2, TYPE_PARTITION, TYPE_VALUE, TYPE_KEY, TYPE_OPAQUE, TYPE_FLAGS, TYPE_TIMESTAMP, TYPE_HEADER };
enum {
    COPY = 2,  // RD_KAFKA_MSG_F_COPY
    PARTITION_EOF = -191,
    QUEUE_FULL = -184,
    ASSIGN_PARTITIONS = -175,
    FIRST_CHUNK = 8,
    LARGEST_CHUNK = 64,
    AHEAD = 8,  // messages that are fetched into the caches before they are looked at
    MOST_HEADERS = 16,
    // Of "<prefix><partition>/<offset>/<index>": what a prefix and three numbers take at most.
    LONGEST_POSITION = 320,
    EVENTS = sizeof ((KafkaEvents *)0)->events / sizeof(KafkaEvent),
    // Log lines and errors leave this much room for events that must not be dropped.
    RESERVED_EVENTS = 128,
};

static KafkaFunctions kafka;

void kafka_link(const KafkaFunctions *functions) { kafka = *functions; }

// Notes.

static void put_text(char *to, int64_t room, const char *text) {
    int64_t size = 0;
    while (text && text[size] && size < room - 1) {
        to[size] = text[size];
        size++;
    }
    to[size] = 0;
}

static KafkaEvent *note(KafkaEvents *events, int kind, int code, const char *text) {
    const int32_t room = kind == KAFKA_LOG || kind == KAFKA_ERROR ? EVENTS - RESERVED_EVENTS : EVENTS;
    if (events->count >= room) {
        events->dropped++;
        return 0;
    }
    KafkaEvent *event = &events->events[events->count++];
    event->kind = kind;
    event->code = code;
    event->lost = 0;
    event->row = -1;
    event->partitions = 0;
    put_text(event->text, sizeof event->text, text);
    return event;
}

// rd_kafka_yield would end the call as well, but loses the message that is next in the queue (rd_kafka_q_serve_rkmessages
// of librdkafka 2.15); a yield of the queue ends a wait for messages only.
static void end_wait(const KafkaEvents *events) {
    if (events->queue) kafka.queue_yield(events->queue);
}

void kafka_note_rebalance(rd_kafka_t *client, int code, rd_kafka_topic_partition_list_t *partitions, void *opaque) {
    KafkaEvents *events = opaque;
    if (events->closing) {
        rd_kafka_error_t *error = code == ASSIGN_PARTITIONS ? 0 : kafka.incremental_unassign(client, partitions);
        if (error) {
            kafka.error_destroy(error);
            kafka.assign(client, 0);
        }
        return;
    }
    KafkaEvent *event = note(events, KAFKA_REBALANCE, code, "");
    if (!event) return;
    event->lost = kafka.assignment_lost(client);
    event->partitions = kafka.topic_partition_list_copy(partitions);
    end_wait(events);
}

void kafka_note_commit(rd_kafka_t *client, int code, rd_kafka_topic_partition_list_t *partitions, void *opaque) {
    (void)client;
    KafkaEvents *events = opaque;
    KafkaEvent *event = note(events, KAFKA_COMMIT, code, "");
    if (event && partitions) event->partitions = kafka.topic_partition_list_copy(partitions);
}

void kafka_note_error(rd_kafka_t *client, int code, const char *reason, void *opaque) {
    (void)client;
    note(opaque, KAFKA_ERROR, code, reason);
    end_wait(opaque);
}

void kafka_note_log(const rd_kafka_t *client, int level, const char *facility, const char *text) {
    (void)facility;
    // The setting log.queue lets lines come through the client's queue, on the thread that serves it.
    KafkaEvents *events = client ? kafka.opaque(client) : 0;
    if (events) note(events, KAFKA_LOG, level, text);
}

void kafka_note_token(rd_kafka_t *client, const char *config, void *opaque) {
    (void)client;
    note(opaque, KAFKA_TOKEN, 0, config);
    end_wait(opaque);
}

void kafka_note_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    KafkaEvents *events = opaque;
    if (!message->err) {
        events->acknowledged++;
        return;
    }
    // rd_kafka_message_produce_errstr may point to a broker's text that librdkafka has freed: the code has to do.
    KafkaEvent *event = note(events, KAFKA_DELIVERY, message->err, "");
    if (event) event->row = (int64_t)(intptr_t)message->_private;
}

// Records that are read.

static void note_failed(KafkaReceived *received, const rd_kafka_message_t *message) {
    const int64_t at = received->failed_count++;
    received->failed[at].code = message->err;
    received->failed[at].partition = message->partition;
    received->failed[at].offset = message->offset;
    put_text(received->failed[at].text, sizeof received->failed[at].text, message->payload);
}

static void note_end(KafkaReceived *received, const rd_kafka_message_t *message) {
    int64_t at = 0;
    while (at < received->ends_count && received->ends[at].partition != message->partition) at++;
    received->ends[at].partition = message->partition;
    received->ends[at].offset = message->offset;
    if (at == received->ends_count) received->ends_count++;
}

// Keep the records among messages that have come, and note the errors.
static void sort_out(KafkaReceived *received, int64_t came) {
    rd_kafka_message_t **const new = received->messages + received->count;
    int64_t kept = 0;
    for (int64_t i = 0; i < came; i++) {
        rd_kafka_message_t *message = new[i];
        if (message->err) {
            (message->err == PARTITION_EOF ? note_end : note_failed)(received, message);
            kafka.message_destroy(message);
            continue;
        }
        received->values_size += (int64_t)message->len + 1;
        received->keys_size += (int64_t)message->key_len + 1;
        new[kept++] = message;
    }
    received->count += kept;
}

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

// How many messages to ask for: about as many as the bytes that are left take, to judge by those that came.
static int64_t next_chunk(const KafkaReceived *received, int64_t most, int64_t most_bytes) {
    const int64_t failures = (int64_t)(sizeof received->failed / sizeof *received->failed) - received->failed_count;
    const int64_t ends = (int64_t)(sizeof received->ends / sizeof *received->ends) - received->ends_count;
    const int64_t bytes = received->values_size + received->keys_size;
    int64_t chunk = received->count < FIRST_CHUNK ? FIRST_CHUNK : LARGEST_CHUNK;
    if (bytes >= most_bytes) return 0;
    if (received->count) chunk = least(chunk, (most_bytes - bytes) / (bytes / received->count + 1) + 1);
    return least(least(chunk, least(failures, ends)), least(most, received->room) - received->count);
}

// Take messages, waiting for them until all that are wanted came or the time is over; how many came.
static int64_t take(KafkaReceived *received, int64_t wanted, int timeout_ms) {
    rd_kafka_message_t **room = received->messages + received->count;
    const int64_t came = kafka.consume_batch_queue(received->queue, timeout_ms, room, (size_t)wanted);
    if (came > 0) sort_out(received, came);
    return came;
}

static void take_all(KafkaReceived *received, int64_t most, int64_t most_bytes) {
    int64_t wanted;
    do wanted = next_chunk(received, most, most_bytes);
    while (wanted > 0 && take(received, wanted, 0) == wanted);
}

// Wait for a first message and take what is there: at most `most` records and at least one, of about `most_bytes`. The
// number of records. The first call alone may wait: a callback's queue_yield ends that wait. Calls behind a message do not
// wait, and so use up no yield that is meant for the next one.
int64_t kafka_receive(KafkaReceived *received, int64_t most, int64_t most_bytes, int timeout_ms) {
    received->count = received->values_size = received->keys_size = received->failed_count = received->ends_count = 0;
    if (take(received, 1, timeout_ms) > 0) take_all(received, most, most_bytes);
    return received->count;
}

static uint8_t *put_line(uint8_t *at, const void *text, size_t size) {
    at = put(at, text, (int64_t)size);
    *at = '\n';
    return at + 1;
}

// Copy the records and free their messages. Each message is freed at once, while it is in the caches.
void kafka_move(KafkaReceived *received, uint8_t *values, int32_t *value_sizes, uint8_t *keys, int32_t *key_sizes,
                int64_t *timestamps, int64_t *partitions, int64_t *offsets, int32_t *leader_epochs) {
    for (int64_t i = 0; i < received->count; i++) {
        rd_kafka_message_t *message = received->messages[i];
        int kind;
        if (i + AHEAD < received->count) __builtin_prefetch(received->messages[i + AHEAD]);
        const int64_t at = kafka.message_timestamp(message, &kind);
        value_sizes[i] = message->payload ? (int32_t)message->len : -1;
        values = put_line(values, message->payload, message->len);
        key_sizes[i] = message->key ? (int32_t)message->key_len : -1;
        keys = put_line(keys, message->key, message->key_len);
        timestamps[i] = at > 0 ? at : 0;
        partitions[i] = message->partition;
        offsets[i] = message->offset;
        leader_epochs[i] = kafka.message_leader_epoch(message);
        kafka.message_destroy(message);
    }
    received->count = 0;
}

static int64_t text_size(const char *text) {
    int64_t size = 0;
    while (text[size]) size++;
    return size;
}

typedef struct {
    const char *name;
    const void *value;
    size_t size;
} Header;

static int next_header(const KafkaReceived *received, int64_t row, int32_t number, Header *header) {
    rd_kafka_headers_t *headers;
    if (kafka.message_headers(received->messages[row], &headers)) return 0;
    return !kafka.header_get_all(headers, (size_t)number, &header->name, &header->value, &header->size);
}

void kafka_measure_headers(const KafkaReceived *received, int32_t *counts, int64_t *count, int64_t *names_size,
                           int64_t *values_size) {
    Header header;
    *count = *names_size = *values_size = 0;
    for (int64_t i = 0; i < received->count; i++) {
        for (counts[i] = 0; next_header(received, i, counts[i], &header); counts[i]++) {
            *names_size += text_size(header.name) + 1;
            *values_size += (int64_t)header.size + 1;
        }
        *count += counts[i];
    }
}

void kafka_copy_headers(const KafkaReceived *received, uint8_t *names, int32_t *name_sizes, uint8_t *values,
                        int32_t *value_sizes) {
    Header header;
    for (int64_t i = 0; i < received->count; i++) {
        for (int32_t number = 0; next_header(received, i, number, &header); number++) {
            const int64_t name_size = text_size(header.name);
            *name_sizes++ = (int32_t)name_size;
            names = put_line(names, header.name, (size_t)name_size);
            *value_sizes++ = header.value ? (int32_t)header.size : -1;
            values = put_line(values, header.value, header.size);
        }
    }
}

void kafka_release(KafkaReceived *received) {
    for (int64_t i = 0; i < received->count; i++) kafka.message_destroy(received->messages[i]);
    received->count = 0;
}

// Records that are written.

static rd_kafka_vu_t text_of(int type, const KafkaTexts *texts, int64_t row) {
    rd_kafka_vu_t made = {.vtype = type};
    if (texts->sizes[row] >= 0) {
        made.u.mem.ptr = (void *)(texts->text + texts->starts[row]);
        made.u.mem.size = (size_t)texts->sizes[row];
    }
    return made;
}

static int64_t put_position(uint8_t *to, const KafkaHeader *header, int64_t row) {
    uint8_t *at = put(to, header->prefix, header->prefix_size);
    at = put_decimal(at, header->partitions[row]);
    *at++ = '/';
    at = put_decimal(at, header->offsets[row]);
    *at++ = '/';
    return put_decimal(at, header->indexes[row]) - to;
}

// Add the headers that a record has behind its other parts; how many parts there are then.
static int64_t add_headers(const KafkaRecords *records, int64_t row, rd_kafka_vu_t *parts, int64_t count,
                           uint8_t positions[][LONGEST_POSITION]) {
    for (int64_t i = 0; i < records->headers_count; i++) {
        const KafkaHeader *header = &records->headers[i];
        const void *value = positions[i];
        int64_t size;
        if (header->values.sizes) {
            size = header->values.sizes[row];
            value = header->values.text + header->values.starts[row];
        } else {
            size = put_position(positions[i], header, row);
        }
        if (size < 0) continue;
        rd_kafka_vu_t *part = &parts[count++];
        part->vtype = TYPE_HEADER;
        part->u.header.name = header->name;
        part->u.header.val = value;
        part->u.header.size = size;
    }
    return count;
}

static rd_kafka_error_t *send_row(const KafkaRecords *records, int64_t row) {
    uint8_t positions[MOST_HEADERS][LONGEST_POSITION];
    rd_kafka_vu_t parts[7 + MOST_HEADERS];
    parts[0] = (rd_kafka_vu_t){.vtype = TYPE_RKT, .u.rkt = records->topic};
    parts[1] = (rd_kafka_vu_t){.vtype = TYPE_PARTITION, .u.i32 = (int32_t)records->partitions[row]};
    parts[2] = (rd_kafka_vu_t){.vtype = TYPE_FLAGS, .u.i = COPY};
    parts[3] = (rd_kafka_vu_t){.vtype = TYPE_TIMESTAMP, .u.i64 = records->timestamps[row]};
    parts[4] = (rd_kafka_vu_t){.vtype = TYPE_OPAQUE, .u.ptr = (void *)(intptr_t)(records->first_row + row)};
    parts[5] = text_of(TYPE_VALUE, &records->values, row);
    parts[6] = text_of(TYPE_KEY, &records->keys, row);
    return kafka.produceva(records->client, parts, (size_t)add_headers(records, row, parts, 7, positions));
}

// Queue the rows from `first` on until the queue is full; the first row that is not queued. A row that is refused at
// once counts as queued, and its delivery as failed. -1: too many headers, or too long a prefix.
int64_t kafka_send(KafkaEvents *events, const KafkaRecords *records, int64_t first) {
    if (records->headers_count > MOST_HEADERS) return -1;
    for (int64_t i = 0; i < records->headers_count; i++)
        if (records->headers[i].prefix_size > LONGEST_POSITION - 64) return -1;
    for (int64_t row = first; row < records->count; row++) {
        rd_kafka_error_t *error = send_row(records, row);
        if (!error) continue;
        const int code = kafka.error_code(error);
        KafkaEvent *event = code == QUEUE_FULL ? 0 : note(events, KAFKA_DELIVERY, code, kafka.error_string(error));
        if (event) event->row = records->first_row + row;
        kafka.error_destroy(error);
        if (code == QUEUE_FULL) return row;
    }
    return records->count;
}
