// Texts of a column: one after the other in one buffer, each followed by a newline; sizes in bytes without it, -1 for a
// text that is not there.

#include "kernel.h"

// Where each text begins.
void find_starts(const int32_t *sizes, int64_t count, int32_t *starts) {
    int32_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        starts[i] = at;
        at += (sizes[i] > 0 ? sizes[i] : 0) + 1;
    }
}

// What the texts of some rows take, newlines included; rows NULL: the first ones.
int64_t texts_size(const int32_t *sizes, const int32_t *rows, int64_t count) {
    int64_t size = count;
    for (int64_t i = 0; i < count; i++) {
        const int32_t of_text = sizes[rows ? rows[i] : i];
        size += of_text > 0 ? of_text : 0;
    }
    return size;
}

// Copy the texts of some rows behind each other, wherever they are in a buffer; rows NULL: the first ones. What they take.
int64_t gather_texts(const uint8_t *text, const int32_t *starts, const int32_t *sizes, const int32_t *rows,
                     int64_t count, uint8_t *out) {
    uint8_t *at = out;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = rows ? rows[i] : i;
        at = put(at, text + starts[row], sizes[row]);
        *at++ = '\n';
    }
    return at - out;
}

// The sizes of lines, each ended by a newline; how many there are, -1 if the last has no end. At most room are written.
// And whether some line begins with a mark, and whether a letter is in some line.
int64_t split_lines(const uint8_t *text, int64_t size, int32_t *sizes, int64_t room, uint8_t mark, uint8_t letter,
                    int64_t *marked, int64_t *with_letter) {
    const __m128i newline = _mm_set1_epi8('\n'), wanted = _mm_set1_epi8((char)letter);
    __m128i any = _mm_setzero_si128();
    int64_t found = 0, start = 0;
    *marked = 0;
    for (int64_t block = 0; block < size; block += BLOCK) {
        uint8_t rest[BLOCK] = {0};
        if (size - block < BLOCK) memcpy(rest, text + block, (unsigned long)(size - block));
        const __m128i letters = _mm_loadu_si128((const __m128i *)(size - block < BLOCK ? rest : text + block));
        any = _mm_or_si128(any, _mm_cmpeq_epi8(letters, wanted));
        for (int left = _mm_movemask_epi8(_mm_cmpeq_epi8(letters, newline)); left; left &= left - 1) {
            const int64_t end = block + __builtin_ctz((unsigned)left);
            *marked |= text[start] == mark;
            if (found < room) sizes[found] = (int32_t)(end - start);
            found++;
            start = end + 1;
        }
    }
    *with_letter = _mm_movemask_epi8(any) != 0;
    return start == size ? found : -1;
}
