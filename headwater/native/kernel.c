// Loops over the records of a batch, in C: one turn in Python costs more than all that is done to a record here.
//
// Columns are arrays with one element per record. Texts are one after the other in one buffer, with their sizes in
// bytes in a column of their own; -1 stands for a text that is not there (Kafka's null). Nothing is allocated: who
// calls measures the output. No call fails.

#include <stdint.h>

void *memcpy(void *to, const void *from, unsigned long size);

// A signed number as Kafka writes it: zigzag, seven bits a byte, the lowest first.
static uint8_t *put_varint(uint8_t *at, int64_t number) {
    uint64_t left = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    for (; left > 0x7f; left >>= 7) *at++ = (uint8_t)(left | 0x80);
    *at++ = (uint8_t)left;
    return at;
}

static uint8_t *put(uint8_t *at, const uint8_t *bytes, int64_t size) {
    if (size > 0) {
        memcpy(at, bytes, (unsigned long)size);
        at += size;
    }
    return at;
}

static int64_t varint_size(int64_t number) {
    uint8_t scratch[10];
    return put_varint(scratch, number) - scratch;
}

static int64_t text_size(int32_t size) { return varint_size(size) + (size > 0 ? size : 0); }

// Records of message format v2, one after the other; returns their size.
//
// headers: of each record, with their number in front and, if there are tails, the name of the last header behind.
// tails: the value of the last header; tail_sizes NULL: there is none.
// https://kafka.apache.org/documentation/#record
int64_t encode_records(int64_t count, const uint8_t *values, const int32_t *value_sizes, const uint8_t *keys,
                       const int32_t *key_sizes, const int64_t *times, const uint8_t *headers, int64_t headers_size,
                       const uint8_t *tails, const int32_t *tail_sizes, uint8_t *out) {
    uint8_t *at = out;
    for (int64_t i = 0; i < count; i++) {
        const int32_t value_size = value_sizes[i], key_size = key_sizes[i];
        const int64_t delay = times[i] - times[0];
        int64_t size = 1 + varint_size(delay) + varint_size(i) + text_size(key_size) + text_size(value_size) + headers_size;
        if (tail_sizes) size += text_size(tail_sizes[i]);
        at = put_varint(at, size);
        *at++ = 0;
        at = put_varint(at, delay);
        at = put_varint(at, i);
        at = put(put_varint(at, key_size), keys, key_size);
        at = put(put_varint(at, value_size), values, value_size);
        at = put(at, headers, headers_size);
        if (tail_sizes) {
            at = put(put_varint(at, tail_sizes[i]), tails, tail_sizes[i]);
            tails += tail_sizes[i];
        }
        if (key_size > 0) keys += key_size;
        if (value_size > 0) values += value_size;
    }
    return at - out;
}
