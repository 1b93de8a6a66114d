// What the loops share. They know nothing of Python. Columns are arrays with one element per record; nothing is
// allocated: who calls measures the output.

#ifndef KERNEL_H
#define KERNEL_H

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "functions.h"

void *memcpy(void *to, const void *from, unsigned long size);

enum { BLOCK = 16 };

static inline uint8_t *put(uint8_t *at, const uint8_t *bytes, int64_t size) {
    if (size > 0) {
        memcpy(at, bytes, (unsigned long)size);
        at += size;
    }
    return at;
}

// A number that is not negative, in decimal digits.
static inline uint8_t *put_decimal(uint8_t *at, int64_t number) {
    uint8_t digits[20], *first = digits + sizeof digits;
    do *--first = (uint8_t)('0' + number % 10);
    while (number /= 10);
    return put(at, first, digits + sizeof digits - first);
}

#endif
