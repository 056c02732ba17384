/*
 * The text of a ranges file (docs/ranges.md): one line for each tensor, made one at a time, so that
 * writing takes no memory to speak of.
 */
#include "api/json.h"
#include "api/ranges.h"
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A tensor ---- */

static void write_type(struct oq_json *json, yyjson_mut_val *object,
                       const struct oq_statistics *seen) {
    oq_json_text(json, object, "type", seen->type_varies ? NULL : oq_type_name(seen->type));
    if (seen->rank_varies) {
        oq_json_null(json, object, "shape");
        return;
    }
    yyjson_mut_val *shape = oq_json_array(json, object, "shape");
    for (size_t i = 0; i < seen->rank; i++) {
        if (seen->dim_varies[i]) {
            oq_json_null(json, shape, NULL);
        } else {
            oq_json_integer(json, shape, NULL, seen->shape[i]);
        }
    }
}

static void write_counts(struct oq_json *json, yyjson_mut_val *object,
                         const struct oq_statistics *seen) {
    oq_json_count(json, object, "seen", seen->seen);
    oq_json_count(json, object, "empty", seen->n_empty);
    oq_json_count(json, object, "finite", seen->n_finite);
    oq_json_count(json, object, "nan", seen->n_nan);
    oq_json_count(json, object, "infinite", seen->n_infinite);
    if (seen->n_nan + seen->n_infinite > 0) {
        oq_json_count(json, object, "nonfinite", seen->n_nonfinite);
        oq_json_count(json, object, "first_nonfinite_sample", seen->first_nonfinite_sample);
    }
}

static void write_extremes(struct oq_json *json, yyjson_mut_val *object,
                           const struct oq_statistics *seen) {
    if (seen->n_finite > 0) {
        oq_json_number(json, object, "min", seen->min);
        oq_json_number(json, object, "max", seen->max);
    }
    if (seen->n_far > 0) {
        yyjson_mut_val *far = oq_json_object(json, object, "far");
        oq_json_count(json, far, "count", seen->n_far);
        oq_json_number(json, far, "least", seen->far_least);
        oq_json_number(json, far, "near_min", seen->near_min); /* null: all are far */
        oq_json_number(json, far, "near_max", seen->near_max);
    }
    if (!isnan(seen->mean_square)) {
        oq_json_number(json, object, "mean_square", seen->mean_square);
    }
}

/* Runs of zeros are written as one negative number. */
static void write_bins(struct oq_json *json, yyjson_mut_val *octave, const char *key,
                       const struct oq_histogram *histogram, size_t place, bool negative) {
    if (oq_histogram_octave_total(histogram, place, negative) == 0) {
        return;
    }
    yyjson_mut_val *bins = oq_json_array(json, octave, key);
    int64_t zeros = 0;
    for (size_t i = 0; i < (size_t)1 << oq_histogram_place_bits(place); i++) {
        uint64_t count = oq_histogram_count(histogram, place, negative, i);
        if (count == 0) {
            zeros++;
            continue;
        }
        if (zeros > 0) {
            oq_json_integer(json, bins, NULL, -zeros);
        }
        zeros = 0;
        oq_json_count(json, bins, NULL, count);
    }
    if (zeros > 0) {
        oq_json_integer(json, bins, NULL, -zeros);
    }
}

static void write_histogram(struct oq_json *json, yyjson_mut_val *object,
                            const struct oq_histogram *histogram) {
    yyjson_mut_val *octaves = oq_json_array(json, object, "octaves");
    for (size_t place = 0; place < oq_histogram_n_octaves(histogram); place++) {
        yyjson_mut_val *octave = oq_json_object(json, octaves, NULL);
        oq_json_integer(json, octave, "exponent", oq_histogram_exponent(histogram, place));
        write_bins(json, octave, "positive", histogram, place, false);
        write_bins(json, octave, "negative", histogram, place, true);
    }
}

static void write_tensor(struct oq_json *json, const struct oq_ranges_tensor *tensor) {
    const struct oq_statistics *seen = &tensor->statistics;
    yyjson_mut_val *object = oq_json_object(json, json->root, tensor->name);
    if (tensor->fixed) {
        yyjson_mut_val *range = oq_json_array(json, object, "range");
        oq_json_number(json, range, NULL, tensor->fixed_min);
        oq_json_number(json, range, NULL, tensor->fixed_max);
    }
    if (seen->seen == 0) {
        return;
    }
    write_type(json, object, seen);
    write_counts(json, object, seen);
    write_extremes(json, object, seen);
    if (seen->histogram != NULL) {
        write_histogram(json, object, seen->histogram);
    }
}

/* ---- The file ---- */

static void put_text(struct oq_writer *writer, const char *text) {
    oq_writer_put(writer, text, strlen(text));
}

/* A line of the form {"name":{...}}, without the outer braces. */
static enum onnxptq_status put_tensor(struct oq_writer *writer,
                                      const struct oq_ranges_tensor *tensor,
                                      struct onnxptq_error *error) {
    struct oq_json json;
    char *text = NULL;
    oq_json_init(&json);
    write_tensor(&json, tensor);
    OQ_TRY(oq_json_finish_line(&json, &text, error));
    oq_writer_put(writer, text + 1, strlen(text) - 2);
    free(text);
    return ONNXPTQ_OK;
}

static enum onnxptq_status put_list(struct oq_writer *writer, const char *key,
                                    const struct oq_ranges_list *list,
                                    struct onnxptq_error *error) {
    put_text(writer, ",\n\"");
    put_text(writer, key);
    put_text(writer, "\":{");
    for (size_t i = 0; i < list->n; i++) {
        put_text(writer, i > 0 ? ",\n" : "\n");
        OQ_TRY(put_tensor(writer, &list->tensors[i], error));
    }
    put_text(writer, "}");
    return ONNXPTQ_OK;
}

static enum onnxptq_status put_head(struct oq_writer *writer, const struct oq_ranges *ranges,
                                    struct onnxptq_error *error) {
    struct oq_json json;
    char *text = NULL;
    oq_json_init(&json);
    oq_json_text(&json, json.root, "format", OQ_RANGES_FORMAT);
    oq_json_integer(&json, json.root, "version", OQ_RANGES_VERSION);
    oq_json_text(&json, json.root, "onnxptq", onnxptq_version());
    oq_json_text(&json, json.root, "model", ranges->model);
    oq_json_text(&json, json.root, "model_hash", ranges->fingerprint);
    oq_json_text(&json, json.root, "target", ranges->target);
    oq_json_count(&json, json.root, "samples", ranges->n_samples);
    if (ranges->state_key != NULL) {
        oq_json_text(&json, json.root, "run", ranges->state_key);
        oq_json_text(&json, json.root, "done", ranges->state_done);
    }
    OQ_TRY(oq_json_finish_line(&json, &text, error));
    oq_writer_put(writer, text, strlen(text) - 1); /* goes on */
    free(text);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_ranges_write(const struct oq_ranges *ranges, struct oq_writer *writer,
                                    struct onnxptq_error *error) {
    OQ_TRY(put_head(writer, ranges, error));
    OQ_TRY(put_list(writer, "trace", &ranges->trace, error));
    OQ_TRY(put_list(writer, "tensors", &ranges->tensors, error));
    put_text(writer, "}\n");
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_ranges_save(const struct oq_ranges *ranges, const char *path,
                                   struct onnxptq_error *error) {
    struct oq_writer *writer = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY(oq_writer_create(path, &writer, error));
    OQ_TRY_DONE(oq_ranges_write(ranges, writer, error));
    OQ_TRY_DONE(oq_writer_finish(writer, error));
    OQ_TRY_DONE(oq_writer_commit(writer, error));
done:
    oq_writer_destroy(writer);
    return status;
}
