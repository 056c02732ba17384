/*
 * Converting elements, and describing tensors in messages.
 */
#include "data/elements.h"

#include "base/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 256

/* ---- Conversion ---- */

static bool is_int32_or_int64(int type) {
    return type == ONNXPTQ_TYPE_INT32 || type == ONNXPTQ_TYPE_INT64;
}

bool oq_elements_convertible(int from, int to) {
    if (from == to) {
        return oq_type_size(from) > 0;
    }
    if (oq_type_is_float(from)) {
        return oq_type_is_float(to);
    }
    return is_int32_or_int64(from) && is_int32_or_int64(to);
}

/* False when a finite number became infinite. */
static bool store_float(int to, double value, uint8_t *out) {
    double stored = value;
    oq_store_float(to, value, out);
    oq_convert_to_double(to, out, 1, &stored);
    return isfinite(stored) || !isfinite(value);
}

static size_t convert_floats(int from, const uint8_t *in, int to, uint8_t *out, size_t n) {
    size_t in_size = oq_type_size(from), out_size = oq_type_size(to);
    double block[BLOCK];
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        oq_convert_to_double(from, in + first * in_size, count, block);
        for (size_t i = 0; i < count; i++) {
            if (!store_float(to, block[i], out + (first + i) * out_size)) {
                return first + i;
            }
        }
    }
    return n;
}

static size_t widen_integers(const uint8_t *in, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t narrow;
        memcpy(&narrow, in + i * sizeof narrow, sizeof narrow);
        int64_t wide = narrow;
        memcpy(out + i * sizeof wide, &wide, sizeof wide);
    }
    return n;
}

static size_t narrow_integers(const uint8_t *in, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int64_t wide;
        memcpy(&wide, in + i * sizeof wide, sizeof wide);
        if (wide < INT32_MIN || wide > INT32_MAX) {
            return i;
        }
        int32_t narrow = (int32_t)wide;
        memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
    }
    return n;
}

size_t oq_elements_convert(int from, const void *in, int to, void *out, size_t n) {
    if (n == 0) {
        return 0;
    }
    if (from == to) {
        memcpy(out, in, n * oq_type_size(from));
        return n;
    }
    if (oq_type_is_float(from)) {
        return convert_floats(from, in, to, out, n);
    }
    return to == ONNXPTQ_TYPE_INT64 ? widen_integers(in, out, n) : narrow_integers(in, out, n);
}

/* ---- Descriptions ---- */

/* Appends at *at; what does not fit is cut. */
static void append(char *text, size_t *at, const char *format, ...) OQ_PRINTF(3, 4);
static void append(char *text, size_t *at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text + *at, OQ_DESCRIPTION_SIZE - *at, format, arguments);
    va_end(arguments);
    if (n > 0) {
        *at += (size_t)n;
    }
    if (*at > OQ_DESCRIPTION_SIZE - 1) {
        *at = OQ_DESCRIPTION_SIZE - 1;
    }
}

static void append_shape(char *text, size_t *at, const int64_t *shape, size_t rank) {
    append(text, at, "(");
    for (size_t i = 0; i < rank; i++) {
        if (i > 0) {
            append(text, at, ", ");
        }
        if (shape[i] < 0) {
            append(text, at, "?");
        } else {
            append(text, at, "%" PRId64, shape[i]);
        }
    }
    append(text, at, rank == 1 ? ",)" : ")");
}

const char *oq_describe_shape(char text[OQ_DESCRIPTION_SIZE], const int64_t *shape, size_t rank) {
    size_t at = 0;
    append_shape(text, &at, shape, rank);
    return text;
}

const char *oq_describe_tensor(char text[OQ_DESCRIPTION_SIZE], int type, const int64_t *shape,
                               size_t rank) {
    size_t at = 0;
    append(text, &at, "%s ", oq_type_name(type));
    append_shape(text, &at, shape, rank);
    return text;
}

const char *oq_describe_inputs(char text[OQ_DESCRIPTION_SIZE], const struct onnxptq_tensor *inputs,
                               size_t n) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (at + strlen(inputs[i].name) + 10 > OQ_DESCRIPTION_SIZE) {
            append(text, &at, i > 0 ? ", ..." : "...");
            break;
        }
        append(text, &at, "%s'%s'", i > 0 ? ", " : "", inputs[i].name);
    }
    return n > 0 ? text : "none";
}
