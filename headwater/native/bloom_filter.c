// Adds hashes to a blocked Bloom filter and looks them up: all bits of a hash lie in one 64-bit word of the filter, so
// a lookup costs at most one cache miss.

#include "common.h"

// Returns the bits of a hash in its word.
static uint64_t bit_mask(uint64_t hash) {
    uint64_t bits = 0;
    for (int i = 0; i < 5; i++) bits |= 1ull << (hash >> 6 * i & 63);
    return bits;
}

// Returns the index of the word of a hash. The caller adds hashes in ascending order, so one layer of a filter
// (stores/redis/sets/bloom.py) may get only hashes with similar upper bits. The multiplication spreads them over all
// words.
static uint64_t word_index(uint64_t hash, int64_t word_count) {
    return (hash * 0x9e3779b97f4a7c15 >> 32) * (uint64_t)word_count >> 32;
}

void bloom_add(uint64_t *words, int64_t word_count, const uint64_t *hashes, int64_t count) {
    for (int64_t i = 0; i < count; i++) words[word_index(hashes[i], word_count)] |= bit_mask(hashes[i]);
}

// Sets may_contain[i] to 1 when the filter may contain hash i; leaves it unchanged otherwise.
void bloom_contains(const uint64_t *words, int64_t word_count, const uint64_t *hashes, int64_t count,
                    uint8_t *may_contain) {
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = bit_mask(hashes[i]);
        may_contain[i] |= (words[word_index(hashes[i], word_count)] & bits) == bits;
    }
}
