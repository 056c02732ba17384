/*
 * Quantizes a model that holds a custom operator. The calibration samples come from a callback, so
 * that no file of samples is needed: here they are made up, in a program of yours they come from
 * its own pipeline.
 *
 *     cc custom_op_callback.c $(pkg-config --cflags --libs onnxptq) -lm -o custom_op_callback
 *     ./custom_op_callback model.onnx model.int8.onnx ./libmyops.so
 */
#include <onnxptq.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_SAMPLES = 32 };

/* ---- Calibration data ---------------------------------------------------------------------- */

/* One buffer per input of the model, reused from sample to sample. */
struct samples {
    float *buffers[8];
};

/* A wave whose frequency and height differ from sample to sample. */
static void fill(float *values, size_t n, size_t sample) {
    float height = 0.5F + 0.1F * (float)sample;
    for (size_t i = 0; i < n; i++) {
        values[i] = height * sinf(0.1F * (float)(i * (sample + 1)));
    }
}

/* Dimensions that the model leaves open (-1) are 1: one sample a run. */
static size_t settle_shape(struct onnxptq_tensor *input) {
    size_t n = 1;
    for (size_t i = 0; i < input->rank; i++) {
        input->shape[i] = input->shape[i] < 0 ? 1 : input->shape[i];
        n *= (size_t)input->shape[i];
    }
    return n;
}

static enum onnxptq_status refuse(struct onnxptq_error *error, enum onnxptq_status status,
                                  const char *name, const char *fact) {
    error->status = status;
    snprintf(error->message, sizeof error->message, "cannot make samples for input '%s': %s", name,
             fact);
    return status;
}

/* Called by the library for every run; `inputs` holds what the model declares and receives the
 * data. */
static enum onnxptq_status read_sample(void *user, size_t index, struct onnxptq_tensor *inputs,
                                       size_t n_inputs, struct onnxptq_error *error) {
    struct samples *samples = user;
    for (size_t i = 0; i < n_inputs; i++) {
        if (i == sizeof samples->buffers / sizeof *samples->buffers ||
            inputs[i].type != ONNXPTQ_TYPE_FLOAT) {
            return refuse(error, ONNXPTQ_ERROR_DATA, inputs[i].name, "this example makes floats");
        }
        size_t n = settle_shape(&inputs[i]);
        if (samples->buffers[i] == NULL) {
            samples->buffers[i] = calloc(n, sizeof(float));
        }
        if (samples->buffers[i] == NULL) {
            return refuse(error, ONNXPTQ_ERROR_MEMORY, inputs[i].name, "out of memory");
        }
        fill(samples->buffers[i], n, index);
        inputs[i].data = samples->buffers[i];
        inputs[i].size = n * sizeof(float);
    }
    return ONNXPTQ_OK;
}

/* ---- What happens meanwhile ---------------------------------------------------------------- */

static bool show_progress(void *user, const char *stage, size_t done, size_t total) {
    (void)user;
    if (done == total) {
        printf("%s: %zu samples\n", stage, total);
    }
    return true; /* false would stop the run */
}

static void show_log(void *user, enum onnxptq_log_level level, const char *message) {
    (void)user;
    if (level == ONNXPTQ_LOG_WARNING) {
        fprintf(stderr, "warning: %s\n", message);
    }
}

static void show_report(const struct onnxptq_report *report) {
    for (size_t i = 0; i < report->n_nodes; i++) {
        printf("%-20s %-28s %s\n", report->nodes[i].name, report->nodes[i].op,
               onnxptq_decision_name(report->nodes[i].decision));
    }
    for (size_t i = 0; i < report->n_outputs; i++) {
        printf("output %s: %.1f dB\n", report->outputs[i].name, report->outputs[i].sqnr_db);
    }
}

/* ---- Quantizing ---------------------------------------------------------------------------- */

/* onnxptq_quantize() is all of these steps in one call. */
static enum onnxptq_status quantize(const struct onnxptq_quantize_options *options,
                                    struct onnxptq_error *error) {
    struct onnxptq_job *job = NULL;
    enum onnxptq_status status = onnxptq_job_create(options, &job, error);
    if (status == ONNXPTQ_OK) {
        status = onnxptq_job_check(job, error); /* runs the steps before it too */
    }
    if (status == ONNXPTQ_OK) {
        show_report(onnxptq_job_report(job)); /* the place to decide: nothing is in place yet */
        status = onnxptq_job_commit(job, error);
    }
    onnxptq_job_destroy(job);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL OUT CUSTOM_OP_LIBRARY\n", argv[0]);
        return 2;
    }
    /* Before ONNX Runtime is loaded: recent builds of it look a server up otherwise. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);

    const char *libraries[] = {argv[3]};
    struct onnxptq_runtime_options runtime;
    onnxptq_runtime_options_init(&runtime);
    runtime.custom_op_libraries = libraries;
    runtime.n_custom_op_libraries = 1;

    struct samples samples = {{NULL}};
    struct onnxptq_data_source source = {
        .user = &samples, .n_samples = N_SAMPLES, .read = read_sample};
    struct onnxptq_quantize_options options;
    onnxptq_quantize_options_init(&options);
    options.runtime = &runtime;
    options.model_path = argv[1];
    options.output_path = argv[2];
    options.overwrite = true;
    options.data = &source;
    options.size_rules = 0; /* the models of examples are small */
    options.progress = show_progress;
    options.log = show_log;

    struct onnxptq_error error;
    enum onnxptq_status status = quantize(&options, &error);
    if (status != ONNXPTQ_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
    }
    for (size_t i = 0; i < sizeof samples.buffers / sizeof *samples.buffers; i++) {
        free(samples.buffers[i]);
    }
    return status == ONNXPTQ_OK ? 0 : 1;
}
