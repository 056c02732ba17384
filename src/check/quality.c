/*
 * Measuring one output of two models against each other, tensor by tensor.
 */
#include "base/number.h"
#include "base/size.h"
#include "check/compare.h"

#include <math.h>

#define BLOCK 512

/* Any numeric type to double. 64-bit integers beyond 2^53 are rounded: `exact` tells those apart.
 */
static void load_doubles(int type, const uint8_t *data, size_t n, double *out) {
    size_t size = oq_type_size(type);
    if (oq_type_is_float(type)) {
        oq_convert_to_double(type, data, n, out);
        return;
    }
    bool is_signed = type == ONNXPTQ_TYPE_INT8 || type == ONNXPTQ_TYPE_INT16 ||
                     type == ONNXPTQ_TYPE_INT32 || type == ONNXPTQ_TYPE_INT64;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, data + i * size, size); /* little-endian */
        uint64_t sign = is_signed ? (uint64_t)1 << (size * 8 - 1) : 0;
        out[i] = is_signed ? (double)(int64_t)((bits ^ sign) - sign) : (double)bits;
    }
}

static void add_element(struct oq_output_quality *quality, double reference, double candidate) {
    bool same = reference == candidate || (isnan(reference) && isnan(candidate));
    if (!isfinite(reference)) {
        quality->n_nonfinite += !same;
        return;
    }
    quality->signal += reference * reference;
    if (!isfinite(candidate)) {
        quality->n_nonfinite++;
        quality->noise = INFINITY;
        quality->max_abs_error = INFINITY;
        return;
    }
    double difference = reference - candidate;
    quality->noise += difference * difference;
    quality->max_abs_error = fmax(quality->max_abs_error, fabs(difference));
}

static bool can_compare(const struct onnxptq_tensor *reference,
                        const struct onnxptq_tensor *candidate, size_t *n_elements) {
    size_t size = 0, item = oq_type_size((int)reference->type);
    return reference->type == candidate->type && item > 0 && reference->rank == candidate->rank &&
           memcmp(reference->shape, candidate->shape,
                  reference->rank * sizeof reference->shape[0]) == 0 &&
           oq_shape_elements(reference->shape, reference->rank, n_elements) &&
           oq_size_mul(*n_elements, item, &size) && reference->size == size &&
           candidate->size == size &&
           (size == 0 || (reference->data != NULL && candidate->data != NULL));
}

void oq_quality_init(struct oq_output_quality *quality, const char *name, int type) {
    *quality =
        (struct oq_output_quality){.name = name, .type = type, .comparable = true, .exact = true};
}

void oq_quality_add(struct oq_output_quality *quality, const struct onnxptq_tensor *reference,
                    const struct onnxptq_tensor *candidate) {
    double a[BLOCK], b[BLOCK];
    size_t n = 0;
    if (quality->type == ONNXPTQ_TYPE_UNDEFINED) {
        quality->type = (int)reference->type;
    }
    if (!can_compare(reference, candidate, &n)) {
        quality->comparable = false;
        quality->exact = false;
        return;
    }
    size_t item = oq_type_size((int)reference->type);
    const uint8_t *left = reference->data, *right = candidate->data;
    quality->n_elements += n;
    if (n > 0 && memcmp(left, right, n * item) != 0) {
        quality->exact = false;
    }
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        load_doubles((int)reference->type, left + first * item, count, a);
        load_doubles((int)reference->type, right + first * item, count, b);
        for (size_t i = 0; i < count; i++) {
            add_element(quality, a[i], b[i]);
        }
    }
}

bool oq_quality_sqnr(const struct oq_output_quality *quality, double *sqnr_db) {
    if (!quality->comparable || quality->signal == 0) {
        return false;
    }
    if (quality->noise == 0) {
        *sqnr_db = INFINITY;
    } else if (!isfinite(quality->noise)) {
        *sqnr_db = -INFINITY;
    } else {
        *sqnr_db = 10 * log10(quality->signal / quality->noise);
    }
    return true;
}
