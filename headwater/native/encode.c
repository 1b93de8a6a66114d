// Records as Kafka stores them: https://kafka.apache.org/documentation/#record

#include "kernel.h"

// A signed number as Kafka writes it: zigzag, seven bits a byte, the lowest first.
static uint8_t *put_varint(uint8_t *at, int64_t number) {
    uint64_t left = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    for (; left > 0x7f; left >>= 7) *at++ = (uint8_t)(left | 0x80);
    *at++ = (uint8_t)left;
    return at;
}

static int64_t varint_size(int64_t number) {
    uint8_t scratch[10];
    return put_varint(scratch, number) - scratch;
}

static int64_t text_size(int64_t size) { return varint_size(size) + (size > 0 ? size : 0); }

static uint8_t *put_text(uint8_t *at, const uint8_t *text, int64_t size) { return put(put_varint(at, size), text, size); }

typedef struct {
    const uint8_t *text;
    const int32_t *starts, *sizes;
} Texts;

// Some rows of columns as records of message format v2, one after the other; returns their size.
//
// first: the number of the first one in its batch, first_ms the time of the batch's first record. headers: of each
// record, with their number in front and, if there is one more, its name behind. That one's value is
// "<prefix><offset>/<index>", or with offsets NULL the row's text of tails; with both NULL there is none.
int64_t encode_records(const int32_t *rows, int64_t count, int64_t first, int64_t first_ms, const Texts *values,
                       const Texts *keys, const int64_t *times, const uint8_t *headers, int64_t headers_size,
                       const Texts *tails, const uint8_t *prefix, int64_t prefix_size, const int64_t *offsets,
                       const int64_t *indexes, uint8_t *out) {
    uint8_t *at = out;
    for (int64_t i = 0; i < count; i++) {
        const int32_t row = rows[i], value_size = values->sizes[row], key_size = keys->sizes[row];
        const int64_t delay = times[row] - first_ms, number = first + i;
        int64_t size =
            1 + varint_size(delay) + varint_size(number) + text_size(key_size) + text_size(value_size) + headers_size;
        uint8_t position[41], *end = position;
        if (offsets) {
            end = put_decimal(position, offsets[row]);
            *end++ = '/';
            end = put_decimal(end, indexes[row]);
            size += text_size(prefix_size + (end - position));
        } else if (tails) {
            size += text_size(tails->sizes[row]);
        }
        at = put_varint(at, size);
        *at++ = 0;
        at = put_varint(at, delay);
        at = put_varint(at, number);
        at = put_text(at, keys->text + keys->starts[row], key_size);
        at = put_text(at, values->text + values->starts[row], value_size);
        at = put(at, headers, headers_size);
        if (offsets) {
            at = put(put_varint(at, prefix_size + (end - position)), prefix, prefix_size);
            at = put(at, position, end - position);
        } else if (tails) {
            at = put_text(at, tails->text + tails->starts[row], tails->sizes[row]);
        }
    }
    return at - out;
}
