/*
 * Options: init, copy by size, checks.
 */
#include "api/options.h"

#include "api/state.h"
#include "base/number.h"
#include "base/temporary.h"
#include "prepare/opset.h"
#include "quant/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Init and copy ------------------------------------------------------------------------- */

/* A caller built against an older header has a shorter struct: only what it has is written. */
void onnxptq_runtime_options_fill(struct onnxptq_runtime_options *options, size_t size) {
    struct onnxptq_runtime_options defaults = {.struct_size = size};
    memcpy(options, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

void onnxptq_quantize_options_fill(struct onnxptq_quantize_options *options, size_t size) {
    struct onnxptq_quantize_options defaults = {
        .struct_size = size,
        .target = "tensorrt",
        .method = ONNXPTQ_METHOD_AUTO,
        .percentile = 99.99,
        .size_rules = -1,
        .quantize_outputs = -1,
        .high_precision = ONNXPTQ_TYPE_FLOAT,
        .min_sqnr = 10.0,
        .min_int8_macs = 0.95,
        .external_data_threshold = 1024,
        .external_data_above = INT32_MAX,
    };
    memcpy(options, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

static enum onnxptq_status check_size(size_t given, size_t known, const char *what,
                                      struct onnxptq_error *error) {
    if (given < sizeof(size_t)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot read %s options: struct_size is %zu; fill them with "
                       "onnxptq_%s_options_init() first",
                       what, given, what);
    }
    if (given > known) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot read %s options: they are of a newer header (%zu bytes, this library "
            "knows %zu); use the library that belongs to the header",
            what, given, known);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_runtime_options_copy(const struct onnxptq_runtime_options *given,
                                            struct onnxptq_runtime_options *out,
                                            struct onnxptq_error *error) {
    onnxptq_runtime_options_init(out);
    if (given == NULL) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(check_size(given->struct_size, sizeof *out, "runtime", error));
    memcpy(out, given, given->struct_size);
    out->struct_size = sizeof *out;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_options_copy(const struct onnxptq_quantize_options *given,
                                    struct oq_options *out, struct onnxptq_error *error) {
    if (given == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot quantize: no options given");
    }
    OQ_TRY(check_size(given->struct_size, sizeof out->quantize, "quantize", error));
    onnxptq_quantize_options_init(&out->quantize);
    memcpy(&out->quantize, given, given->struct_size);
    out->quantize.struct_size = sizeof out->quantize;
    OQ_TRY(oq_runtime_options_copy(out->quantize.runtime, &out->runtime, error));
    out->quantize.runtime = &out->runtime;
    if (out->quantize.target == NULL) {
        out->quantize.target = oq_target_find(NULL)->name;
    }
    return ONNXPTQ_OK;
}

const char *oq_method_name(enum onnxptq_method method) {
    switch (method) {
    case ONNXPTQ_METHOD_MAX: return "max";
    case ONNXPTQ_METHOD_PERCENTILE: return "percentile";
    case ONNXPTQ_METHOD_ENTROPY: return "entropy";
    case ONNXPTQ_METHOD_MSE: return "mse";
    case ONNXPTQ_METHOD_AUTO: return "auto";
    }
    return NULL;
}

/* ---- Checks -------------------------------------------------------------------------------- */

struct text_list {
    const char *what;
    const char *const *items;
    size_t n;
};

static enum onnxptq_status check_lists(const struct oq_options *options,
                                       struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *q = &options->quantize;
    const struct onnxptq_runtime_options *r = &options->runtime;
    const struct text_list lists[] = {
        {"custom operator libraries", r->custom_op_libraries, r->n_custom_op_libraries},
        {"providers", r->providers, r->n_providers},
        {"provider options", r->provider_options, r->n_provider_options},
        {"TensorRT plugin libraries", r->trt_plugins, r->n_trt_plugins},
        {"operator types", q->op_types, q->n_op_types},
        {"excluded operator types", q->exclude_op_types, q->n_exclude_op_types},
        {"node patterns", q->nodes, q->n_nodes},
        {"excluded node patterns", q->exclude_nodes, q->n_exclude_nodes},
        {"operator types kept in float32", q->keep_float_op_types, q->n_keep_float_op_types},
        {"node patterns kept in float32", q->keep_float_nodes, q->n_keep_float_nodes},
        {"operator types in half precision", q->half_op_types, q->n_half_op_types},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (size_t j = 0; j < lists[i].n; j++) {
            if (lists[i].items == NULL || lists[i].items[j] == NULL ||
                lists[i].items[j][0] == '\0') {
                return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                               "cannot use the list of %s: entry %zu is empty", lists[i].what, j);
            }
        }
    }
    return ONNXPTQ_OK;
}

const char *oq_options_result_path(const struct onnxptq_quantize_options *q) {
    return q->output_path != NULL ? q->output_path : q->save_ranges_path;
}

bool oq_options_have_data(const struct onnxptq_quantize_options *q) {
    return q->data_path != NULL || q->data != NULL || q->images_path != NULL ||
           q->random_samples > 0;
}

static enum onnxptq_status check_shares(const struct onnxptq_quantize_options *q,
                                        struct onnxptq_error *error) {
    if (q->n_shards > 0 ? q->shard >= q->n_shards : q->shard > 0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot calibrate with shard %zu of %zu: shards are 0 to one less than "
                       "their number",
                       q->shard, q->n_shards);
    }
    if (q->n_shards > 1 &&
        (q->output_path != NULL || oq_ranges_is_cache_path(q->save_ranges_path))) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot make '%s' from one shard of the samples: calibrate each shard into "
                       "a ranges file, merge these, and quantize with --ranges",
                       oq_options_result_path(q));
    }
    if (q->n_parts > OQ_STATE_MAX_PARTS || (q->n_parts > 0 && q->part >= q->n_parts) ||
        (q->n_parts > 1 && q->state_path == NULL)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot calibrate as part %zu of %zu: parts are 0 to one less than their "
                       "number, at most %d, and leave a state",
                       q->part, q->n_parts, OQ_STATE_MAX_PARTS);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_data(const struct onnxptq_quantize_options *q,
                                      struct onnxptq_error *error) {
    int n_sources = (q->data_path != NULL) + (q->data != NULL) + (q->images_path != NULL) +
                    (q->random_samples > 0);
    if (n_sources == 0 && q->ranges_path == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot calibrate: no samples given; pass calibration data with --data or "
                       "--images, or --random-data N where random values will do");
    }
    if (n_sources > 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot calibrate: more than one source of samples given; keep one of --data, "
            "--images and --random-data");
    }
    if (q->data != NULL && (q->data->read == NULL || q->data->n_samples == 0)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot read the data source: it has no samples or no read function");
    }
    if (q->random_samples == 0 && q->n_input_ranges > 0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use --input-range: it describes random data, and --data is given");
    }
    if (q->images_path == NULL && q->preprocess != NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use --preprocess: it says how images are fed, and no --images is "
                       "given");
    }
    if (q->images_path != NULL && q->preprocess == NULL) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot read images '%s': how the model takes them is not said; give it with "
            "--preprocess, for example resize=256,crop=224,mean=0.485:0.456:0.406, or "
            "--preprocess imagenet",
            q->images_path);
    }
    if (q->data != NULL && q->n_input_shapes > 0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use --input-shape: it describes random data and raw files, and a "
                       "data source is given");
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_random(const struct onnxptq_quantize_options *q,
                                        struct onnxptq_error *error) {
    for (size_t i = 0; i < q->n_input_ranges; i++) {
        const struct onnxptq_input_range *range = &q->input_ranges[i];
        if (range->name == NULL || !isfinite(range->low) || !isfinite(range->high) ||
            range->low > range->high) {
            return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                           "cannot use the range of input '%s': %g to %g is no range; give two "
                           "finite numbers, the lower first",
                           range->name ? range->name : "", range->low, range->high);
        }
    }
    for (size_t i = 0; i < q->n_input_shapes; i++) {
        const struct onnxptq_input_shape *shape = &q->input_shapes[i];
        bool good = shape->name != NULL && shape->rank <= ONNXPTQ_MAX_RANK;
        for (size_t d = 0; good && d < shape->rank; d++) {
            good = shape->shape[d] >= 0;
        }
        if (!good) {
            return oq_fail(
                error, ONNXPTQ_ERROR_USAGE,
                "cannot use the shape of input '%s': it has a negative dimension or more "
                "than %d of them",
                shape->name ? shape->name : "", ONNXPTQ_MAX_RANK);
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_fail_no_target(const char *name, struct onnxptq_error *error) {
    return oq_fail(
        error, ONNXPTQ_ERROR_USAGE,
        "cannot use target '%s' (--target): there is none of that name; choose one of: %s", name,
        oq_target_names());
}

static enum onnxptq_status check_precision(const struct onnxptq_quantize_options *q,
                                           struct onnxptq_error *error) {
    const bool half = oq_type_is_half((int)q->high_precision);
    if (!half && q->high_precision != ONNXPTQ_TYPE_FLOAT &&
        q->high_precision != ONNXPTQ_TYPE_UNDEFINED) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use high precision %s: it is float, float16 or bfloat16",
                       oq_type_name((int)q->high_precision));
    }
    if (!half && q->convert_only) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot convert model '%s': no other type given; choose one with "
                       "--high-precision",
                       q->model_path);
    }
    if (!half && (q->native_io ||
                  q->n_keep_float_op_types + q->n_keep_float_nodes + q->n_half_op_types > 0)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use --io-types, --keep-float-op-types, --keep-float-nodes or "
                       "--half-op-types: they need --high-precision fp16 or bf16");
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_quality(const struct onnxptq_quantize_options *q,
                                         struct onnxptq_error *error) {
    if (isnan(q->min_sqnr) || isnan(q->repair_db) || q->repair_db < 0.0 || q->repair_db > 200.0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use %g dB (--min-sqnr) or %g dB (--repair): give decibels, those of "
                       "a repair from 0 to 200",
                       q->min_sqnr, q->repair_db);
    }
    if (!(q->min_int8_macs >= 0.0 && q->min_int8_macs <= 1.0) || !(q->repair_budget >= 0.0)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use a share of %g (--min-int8-macs) or %g seconds "
                       "(--repair-budget): a share is 0 to 1, and seconds are not negative",
                       q->min_int8_macs, q->repair_budget);
    }
    if (q->repair != ONNXPTQ_REPAIR_AUTO && q->repair != ONNXPTQ_REPAIR_ON &&
        q->repair != ONNXPTQ_REPAIR_OFF) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot use repair %d: there is no such choice",
                       q->repair);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_choices(const struct oq_options *options,
                                         struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *q = &options->quantize;
    if (oq_target_find(q->target) == NULL) {
        return oq_fail_no_target(q->target, error);
    }
    if (oq_method_name(q->method) == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot use method %d: there is none",
                       q->method);
    }
    if (!(q->percentile >= 50.0 && q->percentile <= 100.0)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use percentile %g (--percentile): it is 50 to 100", q->percentile);
    }
    if (q->size_rules < -1 || q->size_rules > 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot use size_rules %d: it is 1 (on), 0 (off) or -1 (the target's default)",
            q->size_rules);
    }
    if (q->quantize_outputs < -1 || q->quantize_outputs > 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot use quantize_outputs %d: it is 1 (on), 0 (off) or -1 (the target's default)",
            q->quantize_outputs);
    }
    OQ_TRY(check_precision(q, error));
    OQ_TRY(check_quality(q, error));
    OQ_TRY(oq_target_check_activation(oq_target_find(q->target), q->activation_type, error));
    if (q->foreign_edges != ONNXPTQ_FOREIGN_FLOAT && q->foreign_edges != ONNXPTQ_FOREIGN_FUSE) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use foreign_edges %d: there is no such choice", q->foreign_edges);
    }
    if (q->external_data != ONNXPTQ_EXTERNAL_DATA_AUTO &&
        q->external_data != ONNXPTQ_EXTERNAL_DATA_ALWAYS &&
        q->external_data != ONNXPTQ_EXTERNAL_DATA_NEVER) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use external_data %d: there is no such choice", q->external_data);
    }
    if (q->observe < ONNXPTQ_OBSERVE_AUTO || q->observe > ONNXPTQ_OBSERVE_DEVICE) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot use observe %d: there is no such choice",
                       q->observe);
    }
    if (q->observe == ONNXPTQ_OBSERVE_DEVICE && q->method != ONNXPTQ_METHOD_MAX &&
        q->method != ONNXPTQ_METHOD_AUTO) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot summarise tensors on the device (--observe) for method %s: that is "
                       "done for max alone",
                       oq_method_name(q->method));
    }
    if (q->opset != 0 && (q->opset < OQ_OPSET_OLDEST || q->opset > OQ_OPSET_NEWEST)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot convert to opset %lld (--opset): it is %d to %d",
                       (long long)q->opset, OQ_OPSET_OLDEST, OQ_OPSET_NEWEST);
    }
    if (q->observe == ONNXPTQ_OBSERVE_DEVICE && q->save_ranges_path != NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot summarise tensors on the device (--observe) and save ranges '%s': "
                       "these hold histograms, which are counted on the host",
                       q->save_ranges_path);
    }
    if (options->runtime.threads < 0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot run with %d threads: give 1 or more",
                       options->runtime.threads);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_options_check(const struct oq_options *options,
                                     struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *q = &options->quantize;
    if (q->model_path == NULL || q->model_path[0] == '\0') {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot quantize: no model given");
    }
    if (oq_options_result_path(q) == NULL || oq_options_result_path(q)[0] == '\0') {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot quantize model '%s': no output given; name it with -o",
                       q->model_path);
    }
    OQ_TRY(check_choices(options, error));
    OQ_TRY(check_lists(options, error));
    OQ_TRY(check_shares(q, error));
    OQ_TRY(check_data(q, error));
    return check_random(q, error);
}
