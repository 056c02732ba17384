/*
 * Messages and progress; see log.h.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void oq_log_message(const struct oq_log *log, enum onnxptq_log_level level, const char *format,
                    ...) {
    if (log == NULL || log->log == NULL) {
        return;
    }
    char message[ONNXPTQ_ERROR_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    log->log(log->log_user, level, message);
}

enum onnxptq_status oq_log_progress(const struct oq_log *log, const char *stage, size_t done,
                                    size_t total, struct onnxptq_error *error) {
    if (log == NULL || log->progress == NULL ||
        log->progress(log->progress_user, stage, done, total)) {
        return ONNXPTQ_OK;
    }
    return oq_fail(error, ONNXPTQ_ERROR_CANCELLED,
                   "cannot finish stage '%s': the progress callback asked to stop after %zu of %zu "
                   "runs",
                   stage, done, total);
}
