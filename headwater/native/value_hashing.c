// Decodes and hashes the values of sets.

#include "common.h"

enum { MAX_WIDTH_OF_TWO_MIXES = 32 };  // in bytes: a row up to this width needs two steps of mix16, a wider one four

// Decodes lines of the form prefix + lower-case hex + newline. Each row gets the tag byte and then the decoded bytes.
// Returns 1, or 0 when a line has another form; the content of `rows` is then undefined.
int64_t decode_hex(const uint8_t *lines, int64_t count, const uint8_t *prefix, int64_t prefix_size, int64_t width,
                   uint8_t tag, uint8_t *rows) {
    for (int64_t row = 0; row < count; row++) {
        int is_invalid = 0;
        for (int64_t i = 0; i < prefix_size; i++) is_invalid |= *lines++ != prefix[i];
        *rows++ = tag;
        for (int64_t i = 0; i < width; i++, lines += 2) {
            const uint8_t high = (uint8_t)(lines[0] - '0'), low = (uint8_t)(lines[1] - '0');
            const uint8_t high_letter = (uint8_t)(lines[0] - 'a'), low_letter = (uint8_t)(lines[1] - 'a');
            is_invalid |= (high > 9) & (high_letter > 5);
            is_invalid |= (low > 9) & (low_letter > 5);
            *rows++ = (uint8_t)((high > 9 ? high_letter + 10 : high) << 4 | (low > 9 ? low_letter + 10 : low));
        }
        if (is_invalid | (*lines++ != '\n')) return 0;
    }
    return 1;
}

// The first 64 bytes of XXH3's default secret.
static const uint64_t SECRET[] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
};

static uint64_t load_u64(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

// The step of XXH3 that mixes 16 bytes of the input with 16 bytes of the secret.
static uint64_t mix16(const uint8_t *bytes, const uint64_t *secret, uint64_t seed) {
    const unsigned __int128 product =
        (unsigned __int128)(load_u64(bytes) ^ (secret[0] + seed)) * (load_u64(bytes + 8) ^ (secret[1] - seed));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Computes the seeded 64-bit XXH3 hash of each row of 17 to 64 bytes, as the xxHash specification defines it for inputs
// of that size.
void hash_rows(const uint8_t *rows, int64_t count, int64_t width, uint64_t seed, uint64_t *hashes) {
    for (int64_t i = 0; i < count; i++, rows += width) {
        uint64_t hash = (uint64_t)width * 0x9e3779b185ebca87;
        if (width > MAX_WIDTH_OF_TWO_MIXES)
            hash += mix16(rows + 16, SECRET + 4, seed) + mix16(rows + width - 32, SECRET + 6, seed);
        hash += mix16(rows, SECRET, seed) + mix16(rows + width - 16, SECRET + 2, seed);
        hash = (hash ^ hash >> 37) * 0x165667919e3779f9;
        hashes[i] = hash ^ hash >> 32;
    }
}
