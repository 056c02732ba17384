/*
 * TensorRT's calibration cache: text, the scale of each tensor as the bits of a float32. Where its
 * builder, or ONNX Runtime's TensorRT provider, quantizes by itself, it takes the scales from
 * there.
 */
#include "api/ranges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the program that reads it: TensorRT takes a cache of its own version only. */
#define HEAD "TRT-101401-EntropyCalibration2\n"
#define LARGEST_CODE 127.0

bool oq_ranges_is_cache_path(const char *path) {
    static const char suffix[] = ".cache";
    size_t length = strlen(path), tail = sizeof suffix - 1;
    return length > tail && strcmp(path + length - tail, suffix) == 0;
}

/* ---- Writing ---- */

void oq_ranges_write_cache_head(struct oq_writer *writer) {
    oq_writer_put(writer, HEAD, sizeof HEAD - 1);
}

void oq_ranges_write_cache_line(struct oq_writer *writer, const char *name, double range) {
    float scale = (float)(range / LARGEST_CODE);
    uint32_t bits;
    char text[16];
    memcpy(&bits, &scale, sizeof bits);
    int length = snprintf(text, sizeof text, ": %08x\n", bits);
    oq_writer_put(writer, name, strlen(name));
    oq_writer_put(writer, text, (size_t)length);
}

/* ---- Reading ---- */

/* "name: bits"; a name may hold colons itself. */
static bool parse_line(const char *line, size_t length, size_t *name_length, float *scale) {
    size_t colon = length;
    while (colon > 0 && line[colon - 1] != ':') {
        colon--;
    }
    char digits[16] = "";
    size_t start = colon;
    while (start < length && line[start] == ' ') {
        start++;
    }
    size_t n = length - start;
    if (colon < 2 || n == 0 || n > 8) {
        return false;
    }
    memcpy(digits, line + start, n);
    if (strspn(digits, "0123456789abcdefABCDEF") != n) {
        return false;
    }
    uint32_t bits = (uint32_t)strtoul(digits, NULL, 16);
    memcpy(scale, &bits, sizeof bits);
    *name_length = colon - 1;
    return isfinite(*scale) && *scale >= 0.0F;
}

static enum onnxptq_status add_line(const char *path, const char *line, size_t length,
                                    struct oq_ranges *ranges, struct onnxptq_error *error) {
    size_t name_length = 0;
    float scale = 0;
    if (!parse_line(line, length, &name_length, &scale)) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot read calibration cache '%s': '%.*s' is no tensor and its scale in "
                       "hexadecimal",
                       path, length < 80 ? (int)length : 80, line);
    }
    char *name = oq_arena_strndup(ranges->arena, line, name_length);
    struct oq_ranges_tensor *tensor =
        name != NULL ? oq_ranges_add(ranges, &ranges->tensors, name) : NULL;
    if (tensor == NULL) {
        return oq_fail_memory(error, "the calibration cache");
    }
    tensor->fixed = true;
    tensor->fixed_max = (double)scale * LARGEST_CODE;
    tensor->fixed_min = -tensor->fixed_max;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_ranges_parse_cache(const char *path, const char *text, size_t size,
                                          struct oq_ranges *ranges, struct onnxptq_error *error) {
    bool first = true;
    for (size_t at = 0; at < size; first = false) {
        const char *line = text + at;
        const char *end = memchr(line, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - line) : size - at;
        at += length + 1;
        if (length > 0 && line[length - 1] == '\r') {
            length--;
        }
        if (!first && length > 0) {
            OQ_TRY(add_line(path, line, length, ranges, error));
        }
    }
    return ONNXPTQ_OK;
}
