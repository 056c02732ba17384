/*
 * The state file.
 */
#include "resume.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool resume_name_state(struct console *console, struct args *args, enum exit_code *code) {
    bool calibrates = (args->command->bit & FOR_RANGES) != 0 && args->ranges_file == NULL;
    if (!calibrates || args->output == NULL) {
        return true; /* the library says what is missing */
    }
    size_t size = strlen(args->output) + sizeof ".state";
    args->state_path = args->state != NULL ? strdup(args->state) : malloc(size);
    if (args->state_path == NULL) {
        *code = console_fail_text(console, ONNXPTQ_ERROR_MEMORY, NULL, "out of memory");
        return false;
    }
    if (args->state == NULL) {
        snprintf(args->state_path, size, "%s.state", args->output);
    }
    return true;
}

bool resume_has_state(const struct args *args) {
    return args->state_path != NULL && access(args->state_path, F_OK) == 0;
}

void resume_keep_state(const struct console *console, const struct args *args) {
    struct onnxptq_error error;
    if (args->state_path != NULL && !console->member &&
        onnxptq_state_join(args->state_path, &error) != ONNXPTQ_OK) {
        resume_drop_state(args);
    }
}

enum exit_code resume_tell_interrupt(struct console *console, const struct args *args) {
    resume_keep_state(console, args);
    if (!resume_has_state(args)) {
        return console_fail_text(console, ONNXPTQ_ERROR_CANCELLED, NULL, INTERRUPTED);
    }
    return console_fail_text(console, ONNXPTQ_ERROR_CANCELLED, NULL,
                             "interrupted; '%s' holds what calibration saw: the same command with "
                             "--resume goes on from there",
                             args->state_path);
}

void resume_drop_state(const struct args *args) {
    struct onnxptq_error error;
    if (args->state_path != NULL && !args->resume &&
        onnxptq_state_discard(args->state_path, &error) != ONNXPTQ_OK) {
        return; /* it is no state of ours */
    }
}
