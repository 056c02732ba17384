/*
 * Element types: sizes, names, little-endian access, half precision. Rounding and saturation are
 * defined here once.
 */
#ifndef OQ_BASE_NUMBER_H
#define OQ_BASE_NUMBER_H

#include "base/error.h"

#include <string.h>

/* Bytes of one element of an ONNX data type; 0 for strings, sub-byte and unknown types. */
size_t oq_type_size(int type);
/* FLOAT, FLOAT16, BFLOAT16 or DOUBLE. */
bool oq_type_is_float(int type);

float oq_half_to_float(uint16_t bits);
uint16_t oq_float_to_half(float value);     /* round to nearest even, overflow to infinity */
float oq_bfloat16_to_float(uint16_t bits);
uint16_t oq_float_to_bfloat16(float value); /* round to nearest even */

/* Converts n elements of a float type at `data` (any alignment) to float / double. */
void oq_convert_to_float(int type, const void *data, size_t n, float *out);
void oq_convert_to_double(int type, const void *data, size_t n, double *out);

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

#endif
