/*
 * Reading a ranges file. Whatever it holds, what comes out could have been seen: counts add up,
 * extremes are in order, octaves are where they belong.
 */
#include "api/ranges.h"
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#define LARGEST_TYPE 63 /* numbers of element types are below this */
#define FULL_BINS ((size_t)1 << OQ_HISTOGRAM_BITS)

/* ---- Values ---- */

/* False when there is no such number; absent is `otherwise`. */
static bool read_count(yyjson_val *object, const char *key, uint64_t *out) {
    yyjson_val *value = yyjson_obj_get(object, key);
    *out = yyjson_get_uint(value);
    return value == NULL || yyjson_is_uint(value);
}

/* Null is `none`. */
static bool read_real(yyjson_val *object, const char *key, double none, double *out) {
    yyjson_val *value = yyjson_obj_get(object, key);
    bool number = yyjson_is_num(value);
    *out = number ? yyjson_get_num(value) : none;
    return number || value == NULL || yyjson_is_null(value);
}

/* ---- Type and shape ---- */

static bool read_type(yyjson_val *object, struct oq_statistics *seen) {
    yyjson_val *value = yyjson_obj_get(object, "type");
    seen->type_varies = yyjson_is_null(value);
    for (int type = 1; yyjson_is_str(value) && type < LARGEST_TYPE; type++) {
        if (strcmp(oq_type_name(type), yyjson_get_str(value)) == 0) {
            seen->type = type;
        }
    }
    return seen->type_varies || seen->type != 0;
}

static bool read_shape(yyjson_val *object, struct oq_statistics *seen) {
    yyjson_val *shape = yyjson_obj_get(object, "shape"), *dim = NULL;
    size_t i, n;
    seen->rank_varies = yyjson_is_null(shape);
    if (seen->rank_varies) {
        return true;
    }
    if (!yyjson_is_arr(shape) || yyjson_arr_size(shape) > ONNXPTQ_MAX_RANK) {
        return false;
    }
    seen->rank = yyjson_arr_size(shape);
    yyjson_arr_foreach(shape, i, n, dim) {
        seen->dim_varies[i] = yyjson_is_null(dim);
        seen->shape[i] = seen->dim_varies[i] ? -1 : yyjson_get_sint(dim);
        if (!seen->dim_varies[i] && (!yyjson_is_int(dim) || seen->shape[i] < 0)) {
            return false;
        }
    }
    return true;
}

/* ---- What was seen ---- */

static bool read_counts(yyjson_val *object, struct oq_statistics *seen) {
    uint64_t sample = 0;
    bool good =
        read_count(object, "seen", &seen->seen) && read_count(object, "empty", &seen->n_empty) &&
        read_count(object, "finite", &seen->n_finite) && read_count(object, "nan", &seen->n_nan) &&
        read_count(object, "infinite", &seen->n_infinite) &&
        read_count(object, "nonfinite", &seen->n_nonfinite) &&
        read_count(object, "first_nonfinite_sample", &sample);
    seen->first_nonfinite_sample = (size_t)sample;
    return good && seen->seen > 0 && seen->n_empty <= seen->seen;
}

static bool read_far(yyjson_val *object, struct oq_statistics *seen) {
    yyjson_val *far = yyjson_obj_get(object, "far");
    seen->near_min = seen->min;
    seen->near_max = seen->max;
    if (far == NULL) {
        return true;
    }
    return read_count(far, "count", &seen->n_far) && seen->n_far > 0 &&
           seen->n_far <= seen->n_finite &&
           read_real(far, "least", (double)NAN, &seen->far_least) && seen->far_least > 0.0 &&
           read_real(far, "near_min", (double)INFINITY, &seen->near_min) &&
           read_real(far, "near_max", -(double)INFINITY, &seen->near_max);
}

static bool read_extremes(yyjson_val *object, struct oq_statistics *seen) {
    if (seen->n_finite == 0) {
        return true;
    }
    return read_real(object, "min", (double)NAN, &seen->min) &&
           read_real(object, "max", (double)NAN, &seen->max) && seen->min <= seen->max &&
           read_far(object, seen) &&
           read_real(object, "mean_square", (double)NAN, &seen->mean_square);
}

/* A negative number stands for as many zeros. */
static bool read_bins(yyjson_val *bins, uint64_t counts[FULL_BINS], size_t *n_counts) {
    size_t i, n, at = 0;
    yyjson_val *bin = NULL;
    yyjson_arr_foreach(bins, i, n, bin) {
        int64_t run = yyjson_is_sint(bin) ? yyjson_get_sint(bin) : 0;
        if (!yyjson_is_int(bin) || run < -(int64_t)FULL_BINS) {
            return false;
        }
        size_t width = run < 0 ? (size_t)-run : 1;
        if (width > FULL_BINS - at) {
            return false;
        }
        for (size_t k = 0; k < width; k++) {
            counts[at++] = run < 0 ? 0 : yyjson_get_uint(bin);
        }
    }
    *n_counts = at;
    return true;
}

static bool read_side(yyjson_val *octave, const char *key, bool negative,
                      struct oq_histogram *histogram) {
    uint64_t counts[FULL_BINS];
    size_t n = 0;
    yyjson_val *exponent = yyjson_obj_get(octave, "exponent");
    yyjson_val *bins = yyjson_obj_get(octave, key);
    int64_t e = yyjson_get_sint(exponent);
    if (bins == NULL) {
        return true;
    }
    return yyjson_is_int(exponent) && e >= OQ_HISTOGRAM_MIN_EXPONENT &&
           e <= OQ_HISTOGRAM_MAX_EXPONENT && yyjson_is_arr(bins) && read_bins(bins, counts, &n) &&
           oq_histogram_restore(histogram, (int)e, negative, counts, n);
}

static bool read_histogram(yyjson_val *object, struct oq_statistics *seen) {
    yyjson_val *octaves = yyjson_obj_get(object, "octaves"), *octave = NULL;
    size_t i, n;
    if (octaves == NULL || !yyjson_is_arr(octaves)) {
        return octaves == NULL;
    }
    seen->histogram = oq_histogram_create();
    if (seen->histogram == NULL) {
        return false;
    }
    oq_histogram_add_total(seen->histogram, seen->n_finite);
    yyjson_arr_foreach(octaves, i, n, octave) {
        if (!read_side(octave, "positive", false, seen->histogram) ||
            !read_side(octave, "negative", true, seen->histogram)) {
            return false;
        }
    }
    return true;
}

static bool read_fixed(yyjson_val *object, struct oq_ranges_tensor *tensor) {
    yyjson_val *range = yyjson_obj_get(object, "range");
    if (range == NULL) {
        return true;
    }
    tensor->fixed = true;
    tensor->fixed_min = yyjson_get_num(yyjson_arr_get(range, 0));
    tensor->fixed_max = yyjson_get_num(yyjson_arr_get(range, 1));
    return yyjson_arr_size(range) == 2 && yyjson_is_num(yyjson_arr_get(range, 0)) &&
           yyjson_is_num(yyjson_arr_get(range, 1)) && tensor->fixed_min <= tensor->fixed_max;
}

static bool read_tensor(yyjson_val *object, struct oq_ranges_tensor *tensor) {
    struct oq_statistics *seen = &tensor->statistics;
    if (!yyjson_is_obj(object) || !read_fixed(object, tensor)) {
        return false;
    }
    if (yyjson_obj_get(object, "seen") == NULL) {
        return true;
    }
    return read_type(object, seen) && read_shape(object, seen) && read_counts(object, seen) &&
           read_extremes(object, seen) && read_histogram(object, seen);
}

/* ---- The file ---- */

static enum onnxptq_status read_list(const char *path, yyjson_val *root, const char *key,
                                     struct oq_ranges *ranges, struct oq_ranges_list *list,
                                     struct onnxptq_error *error) {
    size_t i, n;
    yyjson_val *name = NULL, *value = NULL, *object = yyjson_obj_get(root, key);
    if (object != NULL && !yyjson_is_obj(object)) {
        return oq_fail(
            error, ONNXPTQ_ERROR_DATA,
            "cannot read ranges '%s': its '%s' are not listed by tensor; calibrate again", path,
            key);
    }
    if (yyjson_obj_size(object) == 0) {
        return ONNXPTQ_OK; /* the loop below needs one */
    }
    yyjson_obj_foreach(object, i, n, name, value) {
        const char *text = yyjson_get_str(name);
        if (oq_ranges_find(list, text) != NULL) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA,
                           "cannot read ranges '%s': tensor '%s' is in it twice", path, text);
        }
        struct oq_ranges_tensor *tensor = oq_ranges_add(ranges, list, text);
        if (tensor == NULL) {
            return oq_fail_memory(error, "the ranges");
        }
        if (!read_tensor(value, tensor)) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA,
                           "cannot read ranges '%s': what it says of tensor '%s' makes no sense; "
                           "calibrate again",
                           path, text);
        }
    }
    return ONNXPTQ_OK;
}

static const char *copy_text(struct oq_ranges *ranges, yyjson_val *value) {
    return yyjson_is_str(value) ? oq_arena_strdup(ranges->arena, yyjson_get_str(value)) : NULL;
}

static enum onnxptq_status read_head(const char *path, yyjson_val *root, struct oq_ranges *ranges,
                                     struct onnxptq_error *error) {
    const char *format = yyjson_get_str(yyjson_obj_get(root, "format"));
    if (format == NULL || strcmp(format, OQ_RANGES_FORMAT) != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot read ranges '%s': it is no ranges file, nor a calibration cache of "
                       "TensorRT",
                       path);
    }
    yyjson_val *version = yyjson_obj_get(root, "version");
    if (yyjson_get_sint(version) != OQ_RANGES_VERSION) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "cannot read ranges '%s': they are of version %lld, and this program knows "
                       "version %d; calibrate again",
                       path, (long long)yyjson_get_sint(version), OQ_RANGES_VERSION);
    }
    const char *hash = yyjson_get_str(yyjson_obj_get(root, "model_hash"));
    snprintf(ranges->fingerprint, sizeof ranges->fingerprint, "%s", hash != NULL ? hash : "");
    ranges->model = copy_text(ranges, yyjson_obj_get(root, "model"));
    ranges->target = copy_text(ranges, yyjson_obj_get(root, "target"));
    ranges->n_samples = yyjson_get_uint(yyjson_obj_get(root, "samples"));
    ranges->state_key = copy_text(ranges, yyjson_obj_get(root, "run"));
    ranges->state_done = copy_text(ranges, yyjson_obj_get(root, "done"));
    return ONNXPTQ_OK;
}

static enum onnxptq_status read_root(const char *path, yyjson_val *root, struct oq_ranges *ranges,
                                     struct onnxptq_error *error) {
    OQ_TRY(read_head(path, root, ranges, error));
    OQ_TRY(read_list(path, root, "trace", ranges, &ranges->trace, error));
    return read_list(path, root, "tensors", ranges, &ranges->tensors, error);
}

/* Without YYJSON_READ_INSITU the text is only read. */
static enum onnxptq_status parse_json(const char *path, const char *text, size_t size,
                                      struct oq_ranges *ranges, struct onnxptq_error *error) {
    yyjson_read_err reason;
    yyjson_doc *doc =
        yyjson_read_opts((char *)(uintptr_t)text, size, YYJSON_READ_NOFLAG, NULL, &reason);
    if (doc == NULL && reason.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) {
        return oq_fail_memory(error, "the ranges");
    }
    if (doc == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot read ranges '%s': it is no JSON text, nor a calibration cache of "
                       "TensorRT: %s at byte %zu",
                       path, reason.msg, reason.pos);
    }
    enum onnxptq_status status = read_root(path, yyjson_doc_get_root(doc), ranges, error);
    yyjson_doc_free(doc);
    return status;
}

enum onnxptq_status oq_ranges_parse(const char *path, const char *text, size_t size,
                                    struct oq_ranges **out, struct onnxptq_error *error) {
    struct oq_ranges *ranges = NULL;
    OQ_TRY(oq_ranges_create(&ranges, error));
    bool is_cache = size > 4 && memcmp(text, "TRT-", 4) == 0;
    enum onnxptq_status status = is_cache ? oq_ranges_parse_cache(path, text, size, ranges, error)
                                          : parse_json(path, text, size, ranges, error);
    if (status != ONNXPTQ_OK) {
        oq_ranges_destroy(ranges);
        return status;
    }
    *out = ranges;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_ranges_read(const char *path, struct oq_ranges **out,
                                   struct onnxptq_error *error) {
    struct oq_mapping mapping;
    OQ_TRY(oq_mapping_open(path, &mapping, error));
    enum onnxptq_status status =
        oq_ranges_parse(path, (const char *)mapping.data, mapping.size, out, error);
    oq_mapping_close(&mapping);
    return status;
}
