// The way back of encode.c: where in a batch the keys and values of its records are.
//
// What is read came over a network: no byte outside of the body is touched, whatever it says. Read is all that brokers
// accept, and as Kafka's own client reads it: any negative size is a null.

#include <stdint.h>

typedef struct {
    const uint8_t *at, *end;
    int broken; // by something that did not fit: then nothing is left
} Reader;

static int64_t left_in(const Reader *from) { return from->end - from->at; }

static uint64_t give_up(Reader *from) {
    from->broken = 1;
    from->at = from->end;
    return 0;
}

// Seven bits a byte, the lowest first. Bits beyond the number's own are lost.
static uint64_t take_bits(Reader *from, int most_bytes) {
    uint64_t bits = 0;
    for (int shift = 0; shift < 7 * most_bytes && from->at < from->end; shift += 7) {
        const uint8_t byte = *from->at++;
        bits |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return bits;
    }
    return give_up(from);
}

static int32_t take_int(Reader *from) {
    const uint32_t bits = (uint32_t)take_bits(from, 5);
    return (int32_t)(bits >> 1 ^ (0u - (bits & 1)));
}

static uint64_t take_long(Reader *from) {
    const uint64_t bits = take_bits(from, 10);
    return bits >> 1 ^ (0ul - (bits & 1));
}

static void skip(Reader *from, int32_t size) {
    if (size > left_in(from)) give_up(from);
    else if (size > 0) from->at += size;
}

// A key or value: its place in the body, and its size or -1.
static void take_text(Reader *from, const uint8_t *body, int32_t *start, int32_t *size) {
    const int32_t said = take_int(from);
    *start = (int32_t)(from->at - body);
    *size = said < 0 ? -1 : said;
    skip(from, said);
}

static void skip_headers(Reader *from) {
    const int32_t count = take_int(from);
    if (count < 0) give_up(from);
    for (int32_t i = 0; i < count && !from->broken; i++) {
        const int32_t name_size = take_int(from);
        if (name_size < 0) give_up(from);
        skip(from, name_size);
        skip(from, take_int(from));
    }
}

// Columns of the records of message format v2 in a body that is not compressed (any more). Sums wrap around.
//
// append_ms: the time of all of them, or -1: each its own. Returns count, or -1 when the body is something else.
// https://kafka.apache.org/documentation/#record
int64_t scan_records(const uint8_t *body, int64_t size, int64_t count, int64_t base_offset, int64_t first_ms,
                     int64_t append_ms, int32_t *value_starts, int32_t *value_sizes, int32_t *key_starts,
                     int32_t *key_sizes, int64_t *times, int64_t *offsets) {
    if (size < 0 || size > INT32_MAX || count < 0) return -1;
    Reader all = {body, body + size, 0};
    for (int64_t i = 0; i < count; i++) {
        const int32_t length = take_int(&all);
        if (length < 1 || length > left_in(&all)) return -1;
        Reader record = {all.at, all.at + length, 0};
        record.at++; // attributes, all of them unused
        const int64_t own_ms = (int64_t)((uint64_t)first_ms + take_long(&record));
        const int64_t ms = append_ms == -1 ? own_ms : append_ms;
        times[i] = ms < 0 ? 0 : ms;
        offsets[i] = (int64_t)((uint64_t)base_offset + (uint64_t)(int64_t)take_int(&record));
        take_text(&record, body, &key_starts[i], &key_sizes[i]);
        take_text(&record, body, &value_starts[i], &value_sizes[i]);
        skip_headers(&record);
        if (record.broken || record.at != record.end) return -1;
        all.at = record.end;
    }
    return all.at == all.end ? count : -1;
}
