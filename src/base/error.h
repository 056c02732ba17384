/*
 * Status and error text. A message is made where the fact is known; outer layers only prefix.
 * Shape of a message: "cannot <verb> <what 'name'>: <fact>; <what to do>".
 */
#ifndef OQ_BASE_ERROR_H
#define OQ_BASE_ERROR_H

#include <onnxptq.h>

#define OQ_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#define OQ_MUST_USE __attribute__((warn_unused_result))

/* Stores status and formatted message in `error` (may be NULL) and returns `status`. Control
 * characters are replaced: the message is one line. */
enum onnxptq_status oq_fail(struct onnxptq_error *error, enum onnxptq_status status,
                            const char *format, ...) OQ_PRINTF(3, 4);

/* oq_fail for an allocation of `what` that failed. Inline, so that static analysis sees that it
 * never returns ONNXPTQ_OK. */
static inline enum onnxptq_status oq_fail_memory(struct onnxptq_error *error, const char *what) {
    (void)oq_fail(error, ONNXPTQ_ERROR_MEMORY, "cannot allocate %s: out of memory", what);
    return ONNXPTQ_ERROR_MEMORY;
}

/* oq_fail for a system call: "cannot <verb> '<path>': <text of code>". ONNXPTQ_ERROR_MEMORY for
 * ENOMEM, else ONNXPTQ_ERROR_IO. */
enum onnxptq_status oq_fail_system(struct onnxptq_error *error, int code, const char *verb,
                                   const char *path);

/* Puts formatted text in front of a message already there; returns `status` unchanged. */
enum onnxptq_status oq_prefix(struct onnxptq_error *error, enum onnxptq_status status,
                              const char *format, ...) OQ_PRINTF(3, 4);

/* Puts formatted text behind a message already there; returns `status` unchanged. */
enum onnxptq_status oq_suffix(struct onnxptq_error *error, enum onnxptq_status status,
                              const char *format, ...) OQ_PRINTF(3, 4);

/* Returns from the function with the status of a failed call. */
#define OQ_TRY(call)                                                                               \
    do {                                                                                           \
        enum onnxptq_status oq_try_status_ = (call);                                               \
        if (oq_try_status_ != ONNXPTQ_OK) {                                                        \
            return oq_try_status_;                                                                 \
        }                                                                                          \
    } while (0)

/* Stores the status of a failed call in the local `status` and goes to `done`. */
#define OQ_TRY_DONE(call)                                                                          \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != ONNXPTQ_OK) {                                                                \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#endif
