/*
 * The loops of minmax.c, written once per float type and compiled once per instruction set. For
 * minmax.c alone.
 *
 * Of each element: `magnitude`, its bits without the sign; `key`, whose integer order is the order
 * of the values. The fast loop looks at every element; the masked one, for blocks with a far or
 * non-finite element, keeps near and far ones apart and counts what is not finite. A block is short
 * enough for the counts to fit the type of the keys.
 */
#ifndef OQ_CALIB_MINMAX_LOOPS_H
#define OQ_CALIB_MINMAX_LOOPS_H

#include "calib/vector.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bits of infinity; larger magnitudes are NaN. */
#define OQ_F16_INFINITY INT16_C(0x7c00)
#define OQ_BF16_INFINITY INT16_C(0x7f80)
#define OQ_F32_INFINITY INT32_C(0x7f800000)
#define OQ_F64_INFINITY INT64_C(0x7ff0000000000000)

/* Bits of 65024 in float16 and of 2^24 in the others. */
#define OQ_F16_FAR INT16_C(0x7bf0)
#define OQ_BF16_FAR INT16_C(0x4b80)
#define OQ_F32_FAR INT32_C(0x4b800000)
#define OQ_F64_FAR INT64_C(0x4170000000000000)

/* Types of the loops, and the key of an element's bits, which is also the way back. Right shifts of
 * negative numbers fill with ones on every compiler that we build with. */
#define DEFINE_KEYS(name, type, low, high)                                                         \
    struct keys_##name {                                                                           \
        type min, max, magnitude; /* of the near ones, after the masked loop */                    \
        type far_min, far_max, far_least, n_far, n_nan, n_infinite;                                \
    };                                                                                             \
    typedef struct keys_##name (*loop_##name)(const unsigned char *data, size_t n);                \
    struct loops_##name {                                                                          \
        loop_##name fast, masked;                                                                  \
    };                                                                                             \
    static inline type key_##name(type bits) {                                                     \
        return (type)(bits ^ (type)((type)(bits >> (sizeof(type) * 8 - 1)) & (high)));             \
    }

/* `mask` is all ones or zero. */
#define PICK(type, mask, value, other) ((type)(((value) & (mask)) | ((other) & ~(mask))))

#define DEFINE_LOOPS(name, set, type, low, high, far_bits, infinity_bits)                          \
    TARGET_##set static struct keys_##name fast_##name##_##set(const unsigned char *data,          \
                                                               size_t n) {                         \
        struct keys_##name keys = {.min = (high),                                                  \
                                   .max = (low),                                                   \
                                   .far_min = (high),                                              \
                                   .far_max = (low),                                               \
                                   .far_least = (high)};                                           \
        for (size_t i = 0; i < n; i++) {                                                           \
            type bits;                                                                             \
            memcpy(&bits, data + i * sizeof bits, sizeof bits);                                    \
            type magnitude = (type)(bits & (high));                                                \
            type key = key_##name(bits);                                                           \
            keys.min = key < keys.min ? key : keys.min;                                            \
            keys.max = key > keys.max ? key : keys.max;                                            \
            keys.magnitude = magnitude > keys.magnitude ? magnitude : keys.magnitude;              \
        }                                                                                          \
        return keys;                                                                               \
    }                                                                                              \
    TARGET_##set static struct keys_##name masked_##name##_##set(const unsigned char *data,        \
                                                                 size_t n) {                       \
        struct keys_##name keys = {.min = (high),                                                  \
                                   .max = (low),                                                   \
                                   .far_min = (high),                                              \
                                   .far_max = (low),                                               \
                                   .far_least = (high)};                                           \
        for (size_t i = 0; i < n; i++) {                                                           \
            type bits;                                                                             \
            memcpy(&bits, data + i * sizeof bits, sizeof bits);                                    \
            type magnitude = (type)(bits & (high));                                                \
            type key = key_##name(bits);                                                           \
            type near = (type)(magnitude < (far_bits) ? -1 : 0);                                   \
            type far = (type)((magnitude < (infinity_bits) ? -1 : 0) & ~near);                     \
            type near_low = PICK(type, near, key, high), near_high = PICK(type, near, key, low);   \
            type far_low = PICK(type, far, key, high), far_high = PICK(type, far, key, low);       \
            type least = PICK(type, far, magnitude, high);                                         \
            keys.min = near_low < keys.min ? near_low : keys.min;                                  \
            keys.max = near_high > keys.max ? near_high : keys.max;                                \
            keys.far_min = far_low < keys.far_min ? far_low : keys.far_min;                        \
            keys.far_max = far_high > keys.far_max ? far_high : keys.far_max;                      \
            keys.far_least = least < keys.far_least ? least : keys.far_least;                      \
            keys.n_far = (type)(keys.n_far - far);                                                 \
            keys.n_nan = (type)(keys.n_nan + (magnitude > (infinity_bits) ? 1 : 0));               \
            keys.n_infinite = (type)(keys.n_infinite + (magnitude == (infinity_bits) ? 1 : 0));    \
        }                                                                                          \
        return keys;                                                                               \
    }

#define LOOPS(name, set) {fast_##name##_##set, masked_##name##_##set}

#if defined(__x86_64__)
#define DEFINE_ALL(name, type, low, high, far_bits, infinity_bits)                                 \
    DEFINE_KEYS(name, type, low, high)                                                             \
    DEFINE_LOOPS(name, base, type, low, high, far_bits, infinity_bits)                             \
    DEFINE_LOOPS(name, avx2, type, low, high, far_bits, infinity_bits)                             \
    DEFINE_LOOPS(name, avx512, type, low, high, far_bits, infinity_bits)                           \
    static const struct loops_##name all_##name[] = {LOOPS(name, base), LOOPS(name, avx2),         \
                                                     LOOPS(name, avx512)};
#else
#define DEFINE_ALL(name, type, low, high, far_bits, infinity_bits)                                 \
    DEFINE_KEYS(name, type, low, high)                                                             \
    DEFINE_LOOPS(name, base, type, low, high, far_bits, infinity_bits)                             \
    static const struct loops_##name all_##name[] = {LOOPS(name, base), LOOPS(name, base),         \
                                                     LOOPS(name, base)};
#endif

DEFINE_ALL(f16, int16_t, INT16_MIN, INT16_MAX, OQ_F16_FAR, OQ_F16_INFINITY)
DEFINE_ALL(bf16, int16_t, INT16_MIN, INT16_MAX, OQ_BF16_FAR, OQ_BF16_INFINITY)
DEFINE_ALL(f32, int32_t, INT32_MIN, INT32_MAX, OQ_F32_FAR, OQ_F32_INFINITY)
DEFINE_ALL(f64, int64_t, INT64_MIN, INT64_MAX, OQ_F64_FAR, OQ_F64_INFINITY)

#endif
