/*
 * Running a job for a command.
 */
#include "run_job.h"
#include "resume.h"
#include "worker.h"

#include <math.h>

void args_fill_runtime(const struct args *args, const struct console *console,
                       struct onnxptq_runtime_options *runtime) {
    onnxptq_runtime_options_init(runtime);
    runtime->activity = console->worker != NULL ? worker_tell_activity : NULL;
    runtime->activity_user = console->worker;
    runtime->ort_library = args->ort_library;
    runtime->custom_op_libraries = args->libraries.items;
    runtime->n_custom_op_libraries = args->libraries.n;
    runtime->providers = args->providers.items;
    runtime->n_providers = args->providers.n;
    runtime->provider_options = args->provider_options.items;
    runtime->n_provider_options = args->provider_options.n;
    runtime->trt_plugins = args->trt_plugins.items;
    runtime->n_trt_plugins = args->trt_plugins.n;
    runtime->trt_profile_min = args->trt_profile_min.items;
    runtime->n_trt_profile_min = args->trt_profile_min.n;
    runtime->trt_profile_opt = args->trt_profile_opt.items;
    runtime->n_trt_profile_opt = args->trt_profile_opt.n;
    runtime->trt_profile_max = args->trt_profile_max.items;
    runtime->n_trt_profile_max = args->trt_profile_max.n;
    runtime->threads = args->threads < INT32_MAX ? (int)args->threads : INT32_MAX;
}

/* A percentile alone chooses the method of that name. */
static void fill_method(const struct args *args, struct onnxptq_quantize_options *options) {
    if (!isnan(args->percentile)) {
        options->percentile = args->percentile;
        options->method = ONNXPTQ_METHOD_PERCENTILE;
    }
    if (args->method >= 0) {
        options->method = (enum onnxptq_method)args->method;
    }
}

void job_fill_options(const struct args *args, const struct onnxptq_runtime_options *runtime,
                      struct console *console, struct onnxptq_quantize_options *options) {
    onnxptq_quantize_options_init(options);
    options->runtime = runtime;
    options->model_path = args->model;
    options->output_path = args->output;
    options->overwrite = args->force;
    options->data_path = args->data;
    options->images_path = args->images;
    options->preprocess = args->preprocess;
    options->random_samples = args->random_samples;
    options->seed = args->seed;
    options->input_shapes = args->shapes.items;
    options->n_input_shapes = args->shapes.n;
    options->input_ranges = args->ranges;
    options->n_input_ranges = args->n_ranges;
    options->max_samples = args->samples;
    options->batch = args->batch;
    options->target = args->target;
    fill_method(args, options);
    options->op_types = args->op_types.items;
    options->n_op_types = args->op_types.n;
    options->exclude_op_types = args->exclude_op_types.items;
    options->n_exclude_op_types = args->exclude_op_types.n;
    options->nodes = args->nodes.items;
    options->n_nodes = args->nodes.n;
    options->exclude_nodes = args->exclude_nodes.items;
    options->n_exclude_nodes = args->exclude_nodes.n;
    options->observe = (enum onnxptq_observe)args->observe;
    options->size_rules = args->size_rules;
    options->activation_type = (enum onnxptq_type)args->activation_type;
    options->quantize_outputs = args->quantize_outputs;
    options->allow_low_quality = args->allow_low_quality;
    options->min_sqnr = isnan(args->min_sqnr) ? options->min_sqnr : args->min_sqnr;
    if (!isnan(args->repair)) {
        options->repair = ONNXPTQ_REPAIR_ON;
        options->repair_db = args->repair;
    } else if (args->no_repair) {
        options->repair = ONNXPTQ_REPAIR_OFF;
    }
    options->min_int8_macs =
        isnan(args->min_int8_macs) ? options->min_int8_macs : args->min_int8_macs;
    options->repair_budget = isnan(args->repair_budget) ? 0.0 : args->repair_budget;
    options->high_precision = (enum onnxptq_type)args->high_precision;
    options->native_io = args->native_io > 0;
    options->keep_float_op_types = args->keep_float_op_types.items;
    options->n_keep_float_op_types = args->keep_float_op_types.n;
    options->keep_float_nodes = args->keep_float_nodes.items;
    options->n_keep_float_nodes = args->keep_float_nodes.n;
    options->half_op_types = args->half_op_types.items;
    options->n_half_op_types = args->half_op_types.n;
    options->foreign_edges = (enum onnxptq_foreign_edges)args->foreign_edges;
    options->external_data = (enum onnxptq_external_data)args->external_data;
    options->external_data_threshold = args->external_threshold;
    options->external_data_above = args->external_above;
    options->opset = args->opset < INT32_MAX ? (int64_t)args->opset : INT32_MAX;
    options->ranges_path = args->ranges_file;
    options->save_ranges_path = args->save_ranges;
    options->shard = args->shard > 0 ? (size_t)args->shard - 1 : 0;
    options->n_shards = (size_t)args->n_shards;
    options->state_path = args->state_path;
    options->resume = args->resume || args->go_on;
    options->part = args->part;
    options->n_parts = args->n_parts;
    options->progress = console_progress;
    options->progress_user = console;
    options->log = console_log;
    options->log_user = console;
}

enum onnxptq_status job_run_steps(struct console *console, struct onnxptq_job *job,
                                  const struct job_step *steps, size_t n,
                                  struct onnxptq_error *error) {
    worker_tell_model(console->worker, onnxptq_job_report(job));
    for (size_t i = 0; i < n; i++) {
        if (console->member && i == JOB_MEMBER_STEPS) {
            break;
        }
        if (signals_interrupted()) {
            return ONNXPTQ_ERROR_CANCELLED;
        }
        worker_tell_doing(console->worker, steps[i].name);
        enum onnxptq_status status = steps[i].run(job, error);
        if (status != ONNXPTQ_OK) {
            return status;
        }
    }
    return ONNXPTQ_OK;
}

enum exit_code job_fail(struct console *console, const struct args *args,
                        enum onnxptq_status status, struct onnxptq_error *error, const char *help) {
    if (status == ONNXPTQ_ERROR_CANCELLED) {
        return resume_tell_interrupt(console, args);
    }
    if (args->go_on && args->n_parts == 0) {
        resume_drop_state(args); /* the library keeps what it was told to go on from */
    }
    error->status = status;
    return console_fail(console, error, help);
}
