/*
 * The loops of binner.c, compiled once per instruction set. For binner.c alone.
 *
 * The number of an element's bin is its sign, exponent and first 11 bits of mantissa: its bits
 * without the last 12. Numbers below `floor` are of no interest; they become one of the OQ_LANES
 * numbers before it, whichever has its turn, since a run of equal numbers (the zeros behind a Relu)
 * would make the counting loop wait for its own stores.
 */
#ifndef OQ_CALIB_HISTOGRAM_LOOPS_H
#define OQ_CALIB_HISTOGRAM_LOOPS_H

#include "calib/vector.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OQ_DROPPED_BITS 12 /* of the 23 of a float32's mantissa */
#define OQ_LANES 16
#define OQ_SIGN_SHIFT 19 /* of the sign, in the number of a bin */

/* As bits of float32: the least magnitude above zero, less one; and the greatest. */
struct magnitudes {
    int32_t least, greatest;
};

struct histogram_loops {
    /* `floor` is at least OQ_LANES. */
    struct magnitudes (*number)(const unsigned char *data, size_t n, int32_t floor, uint32_t *out);
    /* Sum of the counts of an octave, which is below 2^16. */
    uint16_t (*sum)(const uint16_t *counts, size_t n);
    /* Bits as float32. */
    void (*from_half)(const unsigned char *data, size_t n, uint32_t *out);
    void (*from_bfloat16)(const unsigned char *data, size_t n, uint32_t *out);
};

/* Exact, with integers and normal floats alone: threads of the runtime may flush denormals to zero.
 * Exponents from 5 bits to 8 differ by 112; a denormal half is a multiple of 2^-24. */
static inline uint32_t half_bits(uint16_t half) {
    uint32_t magnitude = half & 0x7fffU;
    float small = (float)(int32_t)magnitude * 0x1p-24F;
    uint32_t small_bits;
    memcpy(&small_bits, &small, sizeof small_bits);
    uint32_t bits = (magnitude << 13) + (112U << 23);
    bits = magnitude < 0x400U ? small_bits : bits;
    bits = magnitude >= 0x7c00U ? bits | 0x7f800000U : bits;
    return bits | (uint32_t)(half & 0x8000U) << 16;
}

#define DEFINE_HISTOGRAM_LOOPS(set)                                                                \
    TARGET_##set static struct magnitudes number_##set(                                            \
        const unsigned char *restrict data, size_t n, int32_t floor, uint32_t *restrict out) {     \
        struct magnitudes seen = {INT32_MAX, 0};                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint32_t bits;                                                                         \
            memcpy(&bits, data + i * sizeof bits, sizeof bits);                                    \
            int32_t magnitude = (int32_t)(bits & 0x7fffffffU);                                     \
            int32_t above = (int32_t)((uint32_t)(magnitude - 1) & 0x7fffffffU);                    \
            seen.least = above < seen.least ? above : seen.least;                                  \
            seen.greatest = magnitude > seen.greatest ? magnitude : seen.greatest;                 \
            int32_t lane = floor - OQ_LANES + (int32_t)(i & (OQ_LANES - 1));                       \
            int32_t bin = magnitude >> OQ_DROPPED_BITS;                                            \
            bin = bin > lane ? bin : lane;                                                         \
            out[i] = (uint32_t)bin | (bits >> 31) << OQ_SIGN_SHIFT;                                \
        }                                                                                          \
        return seen;                                                                               \
    }                                                                                              \
    TARGET_##set static uint16_t sum_##set(const uint16_t *counts, size_t n) {                     \
        uint16_t sum = 0;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            sum = (uint16_t)(sum + counts[i]);                                                     \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
    TARGET_##set static void from_half_##set(const unsigned char *restrict data, size_t n,         \
                                             uint32_t *restrict out) {                             \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint16_t bits;                                                                         \
            memcpy(&bits, data + i * sizeof bits, sizeof bits);                                    \
            out[i] = half_bits(bits);                                                              \
        }                                                                                          \
    }                                                                                              \
    TARGET_##set static void from_bfloat16_##set(const unsigned char *restrict data, size_t n,     \
                                                 uint32_t *restrict out) {                         \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint16_t bits;                                                                         \
            memcpy(&bits, data + i * sizeof bits, sizeof bits);                                    \
            out[i] = (uint32_t)bits << 16;                                                         \
        }                                                                                          \
    }

#define HISTOGRAM_LOOPS(set) {number_##set, sum_##set, from_half_##set, from_bfloat16_##set}

DEFINE_HISTOGRAM_LOOPS(base)
#if defined(__x86_64__)
DEFINE_HISTOGRAM_LOOPS(avx2)
DEFINE_HISTOGRAM_LOOPS(avx512)
static const struct histogram_loops histogram_loops[] = {
    HISTOGRAM_LOOPS(base), HISTOGRAM_LOOPS(avx2), HISTOGRAM_LOOPS(avx512)};
#else
static const struct histogram_loops histogram_loops[] = {
    HISTOGRAM_LOOPS(base), HISTOGRAM_LOOPS(base), HISTOGRAM_LOOPS(base)};
#endif

#endif
