// A bytes column: byte strings one after the other in one buffer, each followed by a newline. The size of a string in
// bytes does not count its newline, and is -1 for a missing string (None in Python).

#include "common.h"

// Computes the offset of each string in the buffer.
void find_starts(const int32_t *sizes, int64_t count, int32_t *starts) {
    int32_t start = 0;
    for (int64_t i = 0; i < count; i++) {
        starts[i] = start;
        start += (sizes[i] > 0 ? sizes[i] : 0) + 1;
    }
}

// Returns how many bytes the strings of these rows take, newlines included. `rows` NULL means the first `count` rows.
int64_t rows_size(const int32_t *sizes, const int32_t *rows, int64_t count) {
    int64_t total = count;
    for (int64_t i = 0; i < count; i++) {
        const int32_t size = sizes[rows ? rows[i] : i];
        total += size > 0 ? size : 0;
    }
    return total;
}

// Copies the strings of these rows to `out`, each with a newline. Returns the number of bytes written. `rows` NULL
// means the first `count` rows.
int64_t copy_rows(const uint8_t *buffer, const int32_t *starts, const int32_t *sizes, const int32_t *rows,
                  int64_t count, uint8_t *out) {
    uint8_t *end = out;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = rows ? rows[i] : i;
        end = append_bytes(end, buffer + starts[row], sizes[row]);
        *end++ = '\n';
    }
    return end - out;
}

// Writes the sizes of the first `capacity` lines, and returns the number of lines, or -1 when the text does not end
// with a newline. `*has_first_byte` becomes 1 if any line begins with `first_byte`, and `*has_byte` if any line contains
// `byte`; otherwise they become 0.
int64_t split_lines(const uint8_t *text, int64_t size, int32_t *sizes, int64_t capacity, uint8_t first_byte,
                    uint8_t byte, int64_t *has_first_byte, int64_t *has_byte) {
    const __m128i newline = _mm_set1_epi8('\n'), wanted = _mm_set1_epi8((char)byte);
    __m128i matches = _mm_setzero_si128();
    int64_t line_count = 0, start = 0;
    *has_first_byte = 0;
    for (int64_t block = 0; block < size; block += BLOCK) {
        uint8_t last_block[BLOCK] = {0};
        if (size - block < BLOCK) memcpy(last_block, text + block, (unsigned long)(size - block));
        const uint8_t *from = size - block < BLOCK ? last_block : text + block;
        const __m128i bytes = _mm_loadu_si128((const __m128i *)from);
        matches = _mm_or_si128(matches, _mm_cmpeq_epi8(bytes, wanted));
        int remaining = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, newline));
        for (; remaining; remaining &= remaining - 1) {
            const int64_t end = block + __builtin_ctz((unsigned)remaining);
            *has_first_byte |= text[start] == first_byte;
            if (line_count < capacity) sizes[line_count] = (int32_t)(end - start);
            line_count++;
            start = end + 1;
        }
    }
    *has_byte = _mm_movemask_epi8(matches) != 0;
    return start == size ? line_count : -1;
}
