/*
 * What session.c builds and session_run.c uses.
 */
#ifndef OQ_RUNTIME_SESSION_STATE_H
#define OQ_RUNTIME_SESSION_STATE_H

#include "runtime/own_ops.h"
#include "runtime/session.h"

#include <pthread.h>

/* Where the messages of one session go. The runtime's threads may write at the same time. */
struct oq_session_logger {
    const struct oq_log *log;
    pthread_mutex_t lock;
};

/* Inputs or outputs: declarations, and the values of the current run. */
struct oq_session_edge {
    size_t n;
    struct onnxptq_tensor *tensors;
    const char **names; /* tensors[i].name */
    OrtValue **values;
};

struct oq_session {
    const OrtApi *api;
    char *purpose;
    OrtSession *session;
    OrtMemoryInfo *memory; /* of the host */
    struct oq_session_edge inputs, outputs;
    void **copies;   /* of inputs at odd addresses; one per input */
    size_t smallest; /* output that costs least to fetch */
    struct oq_own_ops own;
    struct oq_activity *activity; /* of the runtime */
    struct oq_session_logger logger;
};

#endif
