/*
 * Status and error text; see error.h.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names in a file may hold line breaks and terminals' escape sequences; a message is one line. */
static void make_one_line(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p != '\0'; p++) {
        if (*p < 0x20 || *p == 0x7F) {
            *p = '\t' <= *p && *p <= '\r' ? ' ' : '?';
        }
    }
}

enum onnxptq_status oq_fail(struct onnxptq_error *error, enum onnxptq_status status,
                            const char *format, ...) {
    if (error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        error->status = status;
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        make_one_line(error->message);
    }
    return status;
}

enum onnxptq_status oq_fail_system(struct onnxptq_error *error, int code, const char *verb,
                                   const char *path) {
    char text[128];
    if (strerror_r(code, text, sizeof text) != 0) {
        snprintf(text, sizeof text, "system error %d", code);
    }
    return oq_fail(error, code == ENOMEM ? ONNXPTQ_ERROR_MEMORY : ONNXPTQ_ERROR_IO,
                   "cannot %s '%s': %s", verb, path, text);
}

enum onnxptq_status oq_prefix(struct onnxptq_error *error, enum onnxptq_status status,
                              const char *format, ...) {
    if (error == NULL || status == ONNXPTQ_OK) {
        return status;
    }
    char prefix[ONNXPTQ_ERROR_MESSAGE_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    if (written <= 0) {
        return status;
    }
    const size_t length = strlen(prefix);
    const size_t room = sizeof error->message - length - 1;
    /* The end of a message too long for the buffer is what gets lost. */
    const size_t kept = strnlen(error->message, room);
    memmove(error->message + length, error->message, kept);
    memcpy(error->message, prefix, length);
    error->message[length + kept] = '\0';
    make_one_line(error->message);
    return status;
}

enum onnxptq_status oq_suffix(struct onnxptq_error *error, enum onnxptq_status status,
                              const char *format, ...) {
    if (error == NULL || status == ONNXPTQ_OK) {
        return status;
    }
    const size_t length = strnlen(error->message, sizeof error->message - 1);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message + length, sizeof error->message - length, format, arguments);
    va_end(arguments);
    return status;
}
