// Lines of JSON.

#include "kernel.h"

static int is_digit(uint8_t letter) { return letter >= '0' && letter <= '9'; }

// What may stand before a number. Most digits in a row are hex, text or fractions: behind a letter, quote or point.
static int in_front(uint8_t letter) {
    return letter == ':' || letter == ' ' || letter == ',' || letter == '-' || letter == '[' || letter == '\t' || letter == '\r';
}

enum { HALF = 8, LONG = 16 };

// What there is in lines of text: the number of newlines, and whether some letter is not ASCII. And where numbers may
// begin with 16 digits: the line's number, and the first digit's place in it. Returns how many; at most room are written.
// 16 digits in a row fill at least one of the aligned halves of blocks.
int64_t survey_lines(const uint8_t *text, int64_t size, int32_t *lines, int32_t *places, int64_t room,
                     int64_t *newlines_found, int64_t *wide) {
    __m128i all = _mm_setzero_si128();
    const __m128i newline = _mm_set1_epi8('\n'), zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
    int64_t found = 0, line = 0, line_start = 0, run_end = 0;
    for (int64_t block = 0; block < size; block += BLOCK) {
        uint8_t rest[BLOCK] = {0};
        if (size - block < BLOCK) memcpy(rest, text + block, (unsigned long)(size - block));
        const uint8_t *from = size - block < BLOCK ? rest : text + block;
        const __m128i letters = _mm_loadu_si128((const __m128i *)from), above = _mm_sub_epi8(letters, zero);
        all = _mm_or_si128(all, letters);
        const int digits = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(above, nine), above));
        const int newlines = _mm_movemask_epi8(_mm_cmpeq_epi8(letters, newline));
        for (int half = 0; half < BLOCK; half += HALF) {
            if ((digits >> half & 0xff) == 0xff && block + half >= run_end) {
                int64_t start = block + half;
                run_end = start + HALF;
                while (start > line_start && is_digit(text[start - 1])) start--;
                while (run_end < size && is_digit(text[run_end])) run_end++;
                if (run_end - start >= LONG && start > line_start && in_front(text[start - 1])) {
                    if (found < room) {
                        lines[found] = (int32_t)line;
                        places[found] = (int32_t)(start - line_start);
                    }
                    found++;
                }
            }
            for (int left = newlines >> half & 0xff; left; left &= left - 1) {
                line++;
                line_start = block + half + __builtin_ctz((unsigned)left) + 1;
            }
        }
    }
    *newlines_found = line;
    *wide = _mm_movemask_epi8(all) != 0;
    return found;
}
