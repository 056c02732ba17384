/*
 * What the worker tells the parent, in memory that both see.
 */
#include "worker.h"

#include <string.h>

void worker_tell_doing(struct worker_state *state, const char *doing) {
    if (state != NULL) {
        snprintf(state->doing, sizeof state->doing, "%s", doing);
        state->steps++;
    }
}

void worker_tell_end(struct worker_state *state, enum exit_code code) {
    if (state != NULL) {
        state->code = code;
        state->finished = true;
    }
}

/* `op` may be NULL. */
static void append_quoted(char *text, size_t size, const char *name, const char *op) {
    size_t used = strlen(text);
    if (used + 16 < size) {
        snprintf(text + used, size - used, "%s'%s'%s%s%s", used > 0 ? ", " : "", name,
                 op ? " (" : "", op ? op : "", op ? ")" : "");
    }
}

void worker_tell_model(struct worker_state *state, const struct onnxptq_report *report) {
    for (size_t i = 0; state != NULL && i < report->n_nodes; i++) {
        const struct onnxptq_node_report *node = &report->nodes[i];
        if (node->decision == ONNXPTQ_DECISION_FOREIGN) {
            append_quoted(state->operators, sizeof state->operators, node->name, node->op);
        }
    }
}

/* Strings are empty where there is none. */
static void copy_text(char *to, size_t size, const char *from) {
    snprintf(to, size, "%s", from != NULL ? from : "");
}

void worker_tell_activity(void *user, const struct onnxptq_activity *activity) {
    struct worker_state *state = user;
    copy_text(state->node, sizeof state->node, activity->node);
    copy_text(state->op, sizeof state->op, activity->op);
    copy_text(state->current_library, sizeof state->current_library, activity->library);
    copy_text(state->stage, sizeof state->stage, activity->stage);
    state->first_sample = activity->first_sample;
    state->n_samples = activity->n_samples;
    state->steps++;
}

void worker_tell_libraries(struct worker_state *state, const struct args *args) {
    for (size_t i = 0; i < args->libraries.n; i++) {
        append_quoted(state->libraries, sizeof state->libraries, args->libraries.items[i], NULL);
    }
}

void worker_tell_progress(struct worker_state *state, const char *stage, size_t done,
                          size_t total) {
    if (strcmp(stage, "calibrate") == 0) {
        state->total = total;
        state->done = done;
    }
}

void worker_tell_error(struct worker_state *state, const struct onnxptq_error *error) {
    if (state->error.status == ONNXPTQ_OK) {
        state->error = *error;
    }
}
