/*
 * onnxptq quantize, and onnxptq convert, which is the same without quantizing.
 */
#include "run_job.h"
#include "summary.h"
#include "worker.h"

static const struct job_step steps[] = {
    {"trace and plan", onnxptq_job_plan}, {"calibrate", onnxptq_job_calibrate},
    {"emit", onnxptq_job_emit},           {"check", onnxptq_job_check},
    {"write", onnxptq_job_commit},
};

/* The model is in its place: what fails from here on does not take it away. */
static enum exit_code print_report(struct console *console, struct onnxptq_job *job,
                                   const struct args *args) {
    if (console->member) {
        return EXIT_DONE;
    }
    char written[256];
    snprintf(written, sizeof written, "the model is written to '%.200s' nevertheless",
             args->output);
    results_show(console);
    if (args->json) {
        char *text = NULL;
        struct onnxptq_error error;
        if (onnxptq_job_report_json(job, &text, &error) != ONNXPTQ_OK) {
            return console_fail(console, &error, NULL);
        }
        puts(text);
        onnxptq_free(text);
    } else if (!args->quiet) {
        summary_print(stdout, console, onnxptq_job_report(job));
    }
    return console_finish(console, written);
}

enum exit_code quantize_command(struct console *console, struct args *args) {
    struct onnxptq_runtime_options runtime;
    struct onnxptq_quantize_options options;
    struct onnxptq_error error = {0};
    struct onnxptq_job *job = NULL;
    args_fill_runtime(args, console, &runtime);
    job_fill_options(args, &runtime, console, &options);
    options.convert_only = args->command->bit == FOR_CONVERT;
    enum onnxptq_status status = onnxptq_job_create(&options, &job, &error);
    if (status == ONNXPTQ_OK) {
        status = job_run_steps(console, job, steps, sizeof steps / sizeof *steps, &error);
    }
    console_clear_progress(console);
    enum exit_code code =
        status == ONNXPTQ_OK
            ? print_report(console, job, args)
            : job_fail(console, args, status, &error,
                       options.convert_only ? "onnxptq convert --help" : "onnxptq quantize --help");
    worker_tell_end(console->worker, code);
    onnxptq_job_destroy(job);
    return code;
}
