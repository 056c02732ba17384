/*
 * Element types: sizes, names, little-endian access, half precision. Rounding and saturation are
 * defined here once.
 */
#ifndef OQ_BASE_NUMBER_H
#define OQ_BASE_NUMBER_H

#include "base/error.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are little-endian in files and, here, in memory"
#endif

/* Name of any ONNX data type, e.g. "float", "int4"; "unknown" for a number of no type. Never NULL.
 */
const char *oq_type_name(int type);
/* Bits of one element of an ONNX data type, tightly packed; 0 for strings and unknown types. */
size_t oq_type_bits(int type);
/* Bytes of one element of an ONNX data type; 0 for strings, sub-byte and unknown types. */
size_t oq_type_size(int type);
/* FLOAT, FLOAT16, BFLOAT16 or DOUBLE. */
bool oq_type_is_float(int type);
/* FLOAT16 or BFLOAT16. */
bool oq_type_is_half(int type);

float oq_half_to_float(uint16_t bits);
uint16_t oq_float_to_half(float value); /* round to nearest even, overflow to infinity */
float oq_bfloat16_to_float(uint16_t bits);
uint16_t oq_float_to_bfloat16(float value); /* round to nearest even */

/* Converts n elements of a float type at `data` (any alignment) to float / double. Nothing is
 * written for other types. */
void oq_convert_to_float(int type, const void *data, size_t n, float *out);
void oq_convert_to_double(int type, const void *data, size_t n, double *out);

/* Stores a number as one element of a float type, at any alignment: rounded to nearest even,
 * overflow to infinity; to a 16-bit type through float. */
void oq_store_float(int type, double value, void *out);

/* Largest finite numbers. */
#define OQ_HALF_MAX 65504.0F
#define OQ_BFLOAT16_MAX 0x1.fep127F

/* Nearest float, overflow to infinity. (The plain conversion of a finite double outside the range
 * of float is undefined in C.) */
static inline float oq_double_to_float(double value) {
    /* Values below this round to FLT_MAX, the rest to infinity: FLT_MAX plus half a unit. */
    const double limit = 0x1.ffffffp127;
    if (value >= limit) {
        return INFINITY;
    }
    if (value <= -limit) {
        return -INFINITY;
    }
    if (value > (double)FLT_MAX) {
        return FLT_MAX;
    }
    return value < -(double)FLT_MAX ? -FLT_MAX : (float)value;
}

static inline uint16_t oq_load_u16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t oq_load_u32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t oq_load_u64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline float oq_load_f32(const void *p) {
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline double oq_load_f64(const void *p) {
    double v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
