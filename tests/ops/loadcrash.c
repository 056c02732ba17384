/* A library that dies while it is loaded. */
#include "op_common.h"

__attribute__((constructor)) static void die(void) {
    abort();
}

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    (void)options;
    (void)base;
    return NULL;
}
