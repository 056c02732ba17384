/*
 * Where messages and progress go: the callbacks of the options. Passed by pointer to every stage.
 */
#ifndef OQ_BASE_LOG_H
#define OQ_BASE_LOG_H

#include "base/error.h"

struct oq_log {
    onnxptq_log_fn log;
    void *log_user;
    onnxptq_progress_fn progress;
    void *progress_user;
};

/* `log` may be NULL, as may its callbacks. */
void oq_log_message(const struct oq_log *log, enum onnxptq_log_level level, const char *format, ...)
    OQ_PRINTF(3, 4);

/* ONNXPTQ_ERROR_CANCELLED when the callback asks to stop. */
enum onnxptq_status oq_log_progress(const struct oq_log *log, const char *stage, size_t done,
                                    size_t total, struct onnxptq_error *error) OQ_MUST_USE;

#endif
