/*
 * Registered by own_ops.c, put into sessions' copies of a model by calib/marks.c.
 */
#include "runtime/mark.h"

#include <stdlib.h>

struct mark {
    struct oq_activity *activity;
    char *node, *op, *library; /* of the node that begins, or NULL */
    int64_t end;               /* 1: a node has ended */
};

/* Stays NULL when the attribute is missing or there is no memory: a mark only informs. */
static char *read_text(const OrtApi *api, const OrtKernelInfo *info, const char *name) {
    size_t size = 0;
    OrtStatus *ort = api->KernelInfoGetAttribute_string(info, name, NULL, &size);
    char *text = ort == NULL && size > 0 ? calloc(size, 1) : NULL;
    if (ort == NULL && text != NULL) {
        ort = api->KernelInfoGetAttribute_string(info, name, text, &size);
    }
    if (ort != NULL) {
        api->ReleaseStatus(ort);
        free(text);
        return NULL;
    }
    return text;
}

OrtStatus *oq_mark_create(const struct oq_own_op *op, const OrtKernelInfo *info, void **kernel) {
    struct mark *mark = calloc(1, sizeof *mark);
    if (mark == NULL) {
        return op->api->CreateStatus(ORT_FAIL, "out of memory");
    }
    mark->activity = (struct oq_activity *)(uintptr_t)op->user;
    mark->node = read_text(op->api, info, "node");
    mark->op = read_text(op->api, info, "op");
    mark->library = read_text(op->api, info, "library");
    OrtStatus *ort = op->api->KernelInfoGetAttribute_int64(info, "end", &mark->end);
    if (ort != NULL) {
        op->api->ReleaseStatus(ort); /* there is none */
    }
    *kernel = mark;
    return NULL;
}

OrtStatus *ORT_API_CALL oq_mark_compute(void *kernel, OrtKernelContext *context) {
    const struct mark *mark = kernel;
    (void)context;
    if (mark->node != NULL || mark->end == 1) {
        oq_activity_tell_node(mark->activity, mark->node, mark->op, mark->library);
    }
    return NULL;
}

void ORT_API_CALL oq_mark_destroy(void *kernel) {
    struct mark *mark = kernel;
    free(mark->node);
    free(mark->op);
    free(mark->library);
    free(mark);
}
