/*
 * Called by runtime.c, and from marks inside the graph (mark.c).
 */
#include "runtime/activity.h"

static void tell(struct oq_activity *activity) {
    if (activity->tell != NULL) {
        activity->tell(activity->user, &activity->now);
    }
}

void oq_activity_tell_load(struct oq_activity *activity, const char *library) {
    activity->now = (struct onnxptq_activity){.stage = "load", .library = library};
    tell(activity);
}

void oq_activity_tell_run(struct oq_activity *activity, const char *stage, size_t first_sample,
                          size_t n_samples) {
    activity->now = (struct onnxptq_activity){
        .stage = stage, .first_sample = first_sample, .n_samples = n_samples};
    tell(activity);
}

void oq_activity_tell_close(struct oq_activity *activity) {
    activity->now = (struct onnxptq_activity){.stage = "close"};
    tell(activity);
}

void oq_activity_tell_again(struct oq_activity *activity, const struct onnxptq_activity *before) {
    activity->now = *before;
    tell(activity);
}

void oq_activity_tell_rest(struct oq_activity *activity) {
    activity->now = (struct onnxptq_activity){0};
    tell(activity);
}

void oq_activity_tell_node(struct oq_activity *activity, const char *node, const char *op,
                           const char *library) {
    activity->now.node = node;
    activity->now.op = op;
    activity->now.library = library;
    tell(activity);
}
