/*
 * Size arithmetic that cannot wrap. Every size that comes from a file goes through these.
 */
#ifndef OQ_BASE_SIZE_H
#define OQ_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool oq_size_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool oq_size_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* Elements of a shape; false when a dimension is negative or the product does not fit. */
static inline bool oq_shape_elements(const int64_t *shape, size_t rank, size_t *out) {
    size_t n = 1;
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] < 0 || !oq_size_mul(n, (size_t)shape[i], &n)) {
            return false;
        }
    }
    *out = n;
    return true;
}

#endif
