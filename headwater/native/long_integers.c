// Finds integers of 16 or more digits in lines of JSON.

#include "common.h"

static int is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

// Tells whether a byte may precede a JSON number. Other runs of digits are hex, text or fractions: they follow a
// letter, a quote or a point.
static int may_precede_number(uint8_t byte) {
    return byte == ':' || byte == ' ' || byte == ',' || byte == '-' || byte == '[' || byte == '\t' || byte == '\r';
}

enum { HALF_BLOCK = 8, LONG_DIGITS = 16 };

// Counts newlines, tells whether a byte is not ASCII, and finds the candidates for integers of 16 or more digits.
// Writes the line index of each candidate, and the offset of its first digit in the line, for at most `capacity`
// candidates. Returns the number of all candidates. A run of 16 digits always fills at least one aligned half block,
// so only full half blocks are looked at closely.
int64_t find_long_integers(const uint8_t *text, int64_t size, int32_t *lines, int32_t *offsets, int64_t capacity,
                           int64_t *newline_count, int64_t *has_non_ascii) {
    __m128i all = _mm_setzero_si128();
    const __m128i newline = _mm_set1_epi8('\n'), zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
    int64_t candidate_count = 0, line = 0, line_start = 0, run_end = 0;
    for (int64_t block = 0; block < size; block += BLOCK) {
        uint8_t last_block[BLOCK] = {0};
        if (size - block < BLOCK) memcpy(last_block, text + block, (unsigned long)(size - block));
        const uint8_t *from = size - block < BLOCK ? last_block : text + block;
        const __m128i bytes = _mm_loadu_si128((const __m128i *)from), digit_values = _mm_sub_epi8(bytes, zero);
        all = _mm_or_si128(all, bytes);
        const int digits = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(digit_values, nine), digit_values));
        const int newlines = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, newline));
        for (int half = 0; half < BLOCK; half += HALF_BLOCK) {
            if ((digits >> half & 0xff) == 0xff && block + half >= run_end) {
                int64_t start = block + half;
                run_end = start + HALF_BLOCK;
                while (start > line_start && is_digit(text[start - 1])) start--;
                while (run_end < size && is_digit(text[run_end])) run_end++;
                if (run_end - start >= LONG_DIGITS && start > line_start && may_precede_number(text[start - 1])) {
                    if (candidate_count < capacity) {
                        lines[candidate_count] = (int32_t)line;
                        offsets[candidate_count] = (int32_t)(start - line_start);
                    }
                    candidate_count++;
                }
            }
            for (int remaining = newlines >> half & 0xff; remaining; remaining &= remaining - 1) {
                line++;
                line_start = block + half + __builtin_ctz((unsigned)remaining) + 1;
            }
        }
    }
    *newline_count = line;
    *has_non_ascii = _mm_movemask_epi8(all) != 0;
    return candidate_count;
}
