// Loops over the records of a batch, in C: one turn in Python costs more than all that is done to a record here.
//
// Columns are arrays with one element per record. Texts are one after the other in one buffer, with their sizes in
// bytes in a column of their own; -1 stands for a text that is not there (Kafka's null). Nothing is allocated: who
// calls measures the output. No call fails.

#include <emmintrin.h>
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

// A number that is not negative, in decimal digits.
static uint8_t *put_decimal(uint8_t *at, int64_t number) {
    uint8_t digits[20], *first = digits + sizeof digits;
    do *--first = (uint8_t)('0' + number % 10);
    while (number /= 10);
    return put(at, first, digits + sizeof digits - first);
}

// Records of message format v2, one after the other; returns their size.
//
// headers: of each record, with their number in front and, if there is one more, its name behind. That one's value is
// "<prefix><offset>/<index>", or with offsets NULL a text of tails; with both NULL there is none.
// https://kafka.apache.org/documentation/#record
int64_t encode_records(int64_t count, const uint8_t *values, const int32_t *value_sizes, const uint8_t *keys,
                       const int32_t *key_sizes, const int64_t *times, const uint8_t *headers, int64_t headers_size,
                       const uint8_t *tails, const int32_t *tail_sizes, const uint8_t *prefix, int64_t prefix_size,
                       const int64_t *offsets, const int64_t *indexes, uint8_t *out) {
    uint8_t *at = out;
    for (int64_t i = 0; i < count; i++) {
        const int32_t value_size = value_sizes[i], key_size = key_sizes[i];
        const int64_t delay = times[i] - times[0];
        int64_t size = 1 + varint_size(delay) + varint_size(i) + text_size(key_size) + text_size(value_size) + headers_size;
        uint8_t position[41], *end = position;
        if (offsets) {
            end = put_decimal(position, offsets[i]);
            *end++ = '/';
            end = put_decimal(end, indexes[i]);
            size += text_size((int32_t)(prefix_size + (end - position)));
        } else if (tail_sizes) {
            size += text_size(tail_sizes[i]);
        }
        at = put_varint(at, size);
        *at++ = 0;
        at = put_varint(at, delay);
        at = put_varint(at, i);
        at = put(put_varint(at, key_size), keys, key_size);
        at = put(put_varint(at, value_size), values, value_size);
        at = put(at, headers, headers_size);
        if (offsets) {
            at = put(put_varint(at, prefix_size + (end - position)), prefix, prefix_size);
            at = put(at, position, end - position);
        } else if (tail_sizes) {
            at = put(put_varint(at, tail_sizes[i]), tails, tail_sizes[i]);
            tails += tail_sizes[i];
        }
        if (key_size > 0) keys += key_size;
        if (value_size > 0) values += value_size;
    }
    return at - out;
}

static int is_digit(uint8_t letter) { return letter >= '0' && letter <= '9'; }

// What may stand before a number. Most digits in a row are hex, text or fractions: behind a letter, quote or point.
static int in_front(uint8_t letter) {
    return letter == ':' || letter == ' ' || letter == ',' || letter == '-' || letter == '[' || letter == '\t' || letter == '\r';
}

enum { BLOCK = 16, HALF = 8, LONG = 16 };

// Where numbers may begin with 16 digits, in lines of text: the line's number, and the first digit's place in it.
// Returns how many; at most room are written. 16 digits in a row fill at least one of the aligned halves of blocks.
int64_t long_integers(const uint8_t *text, int64_t size, int32_t *lines, int32_t *places, int64_t room) {
    const __m128i newline = _mm_set1_epi8('\n'), zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
    int64_t found = 0, line = 0, line_start = 0, run_end = 0;
    for (int64_t block = 0; block < size; block += BLOCK) {
        uint8_t rest[BLOCK] = {0};
        if (size - block < BLOCK) memcpy(rest, text + block, (unsigned long)(size - block));
        const uint8_t *from = size - block < BLOCK ? rest : text + block;
        const __m128i letters = _mm_loadu_si128((const __m128i *)from), above = _mm_sub_epi8(letters, zero);
        const int digits = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(above, nine), above));
        const int newlines = _mm_movemask_epi8(_mm_cmpeq_epi8(letters, newline));
        for (int half = 0; half < BLOCK; half += HALF) {
            if ((digits >> half & 0xff) == 0xff && block + half >= run_end) {
                int64_t start = block + half;
                run_end = start + HALF;
                while (start > line_start && is_digit(text[start - 1])) start--;
                while (run_end < size && is_digit(text[run_end])) run_end++;
                if (run_end - start >= LONG && start > line_start && in_front(text[start - 1]) && found < room) {
                    lines[found] = (int32_t)line;
                    places[found++] = (int32_t)(start - line_start);
                }
            }
            for (int left = newlines >> half & 0xff; left; left &= left - 1) {
                line++;
                line_start = block + half + __builtin_ctz((unsigned)left) + 1;
            }
        }
    }
    return found;
}
