/*
 * The loops of minmax.c, written once per float type and compiled once per instruction set. For
 * minmax.c alone.
 *
 * Of each element: `magnitude`, its bits without the sign; `key`, whose integer order is the order
 * of the values. The fast loop looks at every element; the masked one leaves out what is not finite
 * and counts it. A block is short enough for the counts to fit the type of the keys.
 */
#ifndef OQ_CALIB_MINMAX_LOOPS_H
#define OQ_CALIB_MINMAX_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bits of infinity; larger magnitudes are NaN. */
#define OQ_F16_INFINITY INT16_C(0x7c00)
#define OQ_BF16_INFINITY INT16_C(0x7f80)
#define OQ_F32_INFINITY INT32_C(0x7f800000)
#define OQ_F64_INFINITY INT64_C(0x7ff0000000000000)

/* Types of the loops, and the key of an element's bits, which is also the way back. Right shifts of
 * negative numbers fill with ones on every compiler that we build with. */
#define DEFINE_KEYS(name, type, low, high)                                                         \
    struct keys_##name {                                                                           \
        type min, max, magnitude, n_nan, n_infinite;                                               \
    };                                                                                             \
    typedef struct keys_##name (*loop_##name)(const unsigned char *data, size_t n);                \
    struct loops_##name {                                                                          \
        loop_##name fast, masked;                                                                  \
    };                                                                                             \
    static inline type key_##name(type bits) {                                                     \
        return (type)(bits ^ (type)((type)(bits >> (sizeof(type) * 8 - 1)) & (high)));             \
    }

#define DEFINE_LOOPS(name, set, type, low, high, infinity_bits)                                    \
    TARGET_##set static struct keys_##name fast_##name##_##set(const unsigned char *data,          \
                                                               size_t n) {                         \
        struct keys_##name keys = {.min = (high), .max = (low)};                                   \
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
        struct keys_##name keys = {.min = (high), .max = (low)};                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            type bits;                                                                             \
            memcpy(&bits, data + i * sizeof bits, sizeof bits);                                    \
            type magnitude = (type)(bits & (high));                                                \
            type key = key_##name(bits);                                                           \
            type finite = (type)(magnitude < (infinity_bits) ? -1 : 0);                            \
            type lowest = (type)((key & finite) | ((high) & ~finite));                             \
            type highest = (type)((key & finite) | ((low) & ~finite));                             \
            keys.min = lowest < keys.min ? lowest : keys.min;                                      \
            keys.max = highest > keys.max ? highest : keys.max;                                    \
            keys.n_nan = (type)(keys.n_nan + (magnitude > (infinity_bits) ? 1 : 0));               \
            keys.n_infinite = (type)(keys.n_infinite + (magnitude == (infinity_bits) ? 1 : 0));    \
        }                                                                                          \
        return keys;                                                                               \
    }

#define LOOPS(name, set) {fast_##name##_##set, masked_##name##_##set}

#define TARGET_base
#if defined(__x86_64__)
#define TARGET_avx2 __attribute__((target("avx2")))
#define TARGET_avx512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define DEFINE_ALL(name, type, low, high, infinity_bits)                                           \
    DEFINE_KEYS(name, type, low, high)                                                             \
    DEFINE_LOOPS(name, base, type, low, high, infinity_bits)                                       \
    DEFINE_LOOPS(name, avx2, type, low, high, infinity_bits)                                       \
    DEFINE_LOOPS(name, avx512, type, low, high, infinity_bits)                                     \
    static const struct loops_##name all_##name[] = {LOOPS(name, base), LOOPS(name, avx2),         \
                                                     LOOPS(name, avx512)};
#else
#define DEFINE_ALL(name, type, low, high, infinity_bits)                                           \
    DEFINE_KEYS(name, type, low, high)                                                             \
    DEFINE_LOOPS(name, base, type, low, high, infinity_bits)                                       \
    static const struct loops_##name all_##name[] = {LOOPS(name, base), LOOPS(name, base),         \
                                                     LOOPS(name, base)};
#endif

DEFINE_ALL(f16, int16_t, INT16_MIN, INT16_MAX, OQ_F16_INFINITY)
DEFINE_ALL(bf16, int16_t, INT16_MIN, INT16_MAX, OQ_BF16_INFINITY)
DEFINE_ALL(f32, int32_t, INT32_MIN, INT32_MAX, OQ_F32_INFINITY)
DEFINE_ALL(f64, int64_t, INT64_MIN, INT64_MAX, OQ_F64_INFINITY)

#endif
