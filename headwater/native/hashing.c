// Values of a set: their stored forms, their hashes, and filters that know which ones a set may hold.

#include "kernel.h"

enum { TWO_STEPS = 32 };

// Lines of a prefix and lower-case hex, each ended by a newline, as rows of a tag and the bytes: 0 when one is something
// else. Then the rows are of no use.
int64_t decode_hex(const uint8_t *lines, int64_t count, const uint8_t *prefix, int64_t prefix_size, int64_t width,
                   uint8_t tag, uint8_t *rows) {
    for (int64_t i = 0; i < count; i++) {
        int wrong = 0;
        for (int64_t at = 0; at < prefix_size; at++) wrong |= *lines++ != prefix[at];
        *rows++ = tag;
        for (int64_t at = 0; at < width; at++, lines += 2) {
            const uint8_t high = (uint8_t)(lines[0] - '0'), low = (uint8_t)(lines[1] - '0');
            const uint8_t high_letter = (uint8_t)(lines[0] - 'a'), low_letter = (uint8_t)(lines[1] - 'a');
            wrong |= (high > 9) & (high_letter > 5);
            wrong |= (low > 9) & (low_letter > 5);
            *rows++ = (uint8_t)((high > 9 ? high_letter + 10 : high) << 4 | (low > 9 ? low_letter + 10 : low));
        }
        if (wrong | (*lines++ != '\n')) return 0;
    }
    return 1;
}

// The first 64 bytes of XXH3's default secret.
static const uint64_t SECRET[] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
};

static uint64_t word_at(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint64_t mixed(const uint8_t *at, const uint64_t *secret, uint64_t seed) {
    const unsigned __int128 product =
        (unsigned __int128)(word_at(at) ^ (secret[0] + seed)) * (word_at(at + 8) ^ (secret[1] - seed));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// XXH3 of 64 bits with a seed of rows of 17 to 64 bytes, as the xxHash specification has it for inputs of that size.
void hash_rows(const uint8_t *rows, int64_t count, int64_t width, uint64_t seed, uint64_t *hashes) {
    for (int64_t i = 0; i < count; i++, rows += width) {
        uint64_t hash = (uint64_t)width * 0x9e3779b185ebca87;
        if (width > TWO_STEPS)
            hash += mixed(rows + 16, SECRET + 4, seed) + mixed(rows + width - 32, SECRET + 6, seed);
        hash += mixed(rows, SECRET, seed) + mixed(rows + width - 16, SECRET + 2, seed);
        hash = (hash ^ hash >> 37) * 0x165667919e3779f9;
        hashes[i] = hash ^ hash >> 32;
    }
}

// The bits of a filter that stand for a hash lie in one word of it.
static uint64_t bits_of(uint64_t hash) {
    uint64_t bits = 0;
    for (int i = 0; i < 5; i++) bits |= 1ull << (hash >> 6 * i & 63);
    return bits;
}

// Values come in the order of their hashes: by the upper bits as they are, a filter would fill in few places.
static uint64_t place_of(uint64_t hash, int64_t words) {
    return (hash * 0x9e3779b97f4a7c15 >> 32) * (uint64_t)words >> 32;
}

void add_to_filter(uint64_t *filter, int64_t words, const uint64_t *hashes, int64_t count) {
    for (int64_t i = 0; i < count; i++) filter[place_of(hashes[i], words)] |= bits_of(hashes[i]);
}

// Whether hashes may be in a filter; those that may be in another one stay so.
void look_into_filter(const uint64_t *filter, int64_t words, const uint64_t *hashes, int64_t count, uint8_t *maybe) {
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = bits_of(hashes[i]);
        maybe[i] |= (filter[place_of(hashes[i], words)] & bits) == bits;
    }
}
