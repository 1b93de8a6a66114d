// Shared by all C files of this folder, which do not use Python's C API. An int column is an array with one element
// per record; a bytes column is described in bytes_column.c. The functions allocate nothing: the caller computes the
// size of the output and passes a buffer.

#ifndef HEADWATER_COMMON_H
#define HEADWATER_COMMON_H

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "declarations.h"

void *memcpy(void *to, const void *from, unsigned long size);

enum { BLOCK = 16 };  // bytes of an SSE2 vector

// Copies bytes to `out`. Returns the position after them.
static inline uint8_t *append_bytes(uint8_t *out, const uint8_t *bytes, int64_t size) {
    if (size > 0) {
        memcpy(out, bytes, (unsigned long)size);
        out += size;
    }
    return out;
}

// Writes a number that is not negative in decimal digits. Returns the position after them.
static inline uint8_t *append_decimal(uint8_t *out, int64_t number) {
    uint8_t digits[20], *first = digits + sizeof digits;
    do *--first = (uint8_t)('0' + number % 10);
    while (number /= 10);
    return append_bytes(out, first, digits + sizeof digits - first);
}

#endif
