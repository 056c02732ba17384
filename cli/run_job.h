/*
 * What the commands share that run a job of the library: options, steps, failures.
 */
#ifndef ONNXPTQ_CLI_RUN_JOB_H
#define ONNXPTQ_CLI_RUN_JOB_H

#include "args.h"

struct job_step {
    const char *name; /* what a worker that dies was doing */
    enum onnxptq_status (*run)(struct onnxptq_job *job, struct onnxptq_error *error);
};

/* Strings and `runtime` are borrowed. */
void job_fill_options(const struct args *args, const struct onnxptq_runtime_options *runtime,
                      struct console *console, struct onnxptq_quantize_options *options);

/* A member of a team plans and calibrates, the first two steps of every command. */
#define JOB_MEMBER_STEPS 2

/* One step after the other, so that an interrupt ends the run between them too. */
enum onnxptq_status job_run_steps(struct console *console, struct onnxptq_job *job,
                                  const struct job_step *steps, size_t n,
                                  struct onnxptq_error *error);

/* Says what went wrong; `help` is the command to look at. */
enum exit_code job_fail(struct console *console, const struct args *args,
                        enum onnxptq_status status, struct onnxptq_error *error, const char *help);

#endif
