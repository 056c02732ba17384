/*
 * What all operators of the domain have in common. Their kernels are in observe.c,
 * observe_reduced.c and mark.c.
 */
#include "runtime/own_ops.h"

#include "runtime/mark.h"
#include "runtime/observe.h"
#include "runtime/ort.h"

#include <stdlib.h>

static const struct oq_own_op *as_own(const OrtCustomOp *op) {
    return (const struct oq_own_op *)(const void *)op;
}

static const char *get_name(const OrtCustomOp *op) {
    return as_own(op)->type;
}

/* NULL is CPU: tensors of other devices are copied to the host first. */
static const char *get_provider(const OrtCustomOp *op) {
    (void)op;
    return NULL;
}

static size_t get_input_count(const OrtCustomOp *op) {
    return as_own(op)->n_inputs;
}

static size_t get_output_count(const OrtCustomOp *op) {
    (void)op;
    return 0;
}

/* UNDEFINED takes every tensor type. */
static ONNXTensorElementDataType get_type(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

static OrtCustomOpInputOutputCharacteristic get_characteristic(const OrtCustomOp *op,
                                                               size_t index) {
    (void)op;
    (void)index;
    return INPUT_OUTPUT_REQUIRED;
}

static OrtMemType get_memory_type(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return OrtMemTypeDefault;
}

static int get_start_version(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

static int get_end_version(const OrtCustomOp *op) {
    (void)op;
    return INT32_MAX;
}

/* The table that the runtime hands over is that of its newest version; the one that was asked for
 * is a prefix of it. */
static OrtStatus *create_observe(const OrtCustomOp *op, const OrtApi *api,
                                 const OrtKernelInfo *info, void **kernel) {
    (void)api;
    return oq_observe_create(as_own(op), info, kernel);
}

static OrtStatus *create_reduced(const OrtCustomOp *op, const OrtApi *api,
                                 const OrtKernelInfo *info, void **kernel) {
    (void)api;
    return oq_observe_reduced_create(as_own(op), info, kernel);
}

static OrtStatus *create_mark(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info,
                              void **kernel) {
    (void)api;
    return oq_mark_create(as_own(op), info, kernel);
}

static void fill(struct oq_own_op *op, const OrtApi *api, const char *type, size_t n_inputs,
                 const void *user) {
    *op = (struct oq_own_op){.base = {.version = OQ_ORT_API_VERSION,
                                      .GetName = get_name,
                                      .GetExecutionProviderType = get_provider,
                                      .GetInputType = get_type,
                                      .GetInputTypeCount = get_input_count,
                                      .GetOutputType = get_type,
                                      .GetOutputTypeCount = get_output_count,
                                      .KernelDestroy = free,
                                      .GetInputCharacteristic = get_characteristic,
                                      .GetOutputCharacteristic = get_characteristic,
                                      .GetInputMemoryType = get_memory_type,
                                      .GetStartVersion = get_start_version,
                                      .GetEndVersion = get_end_version},
                             .api = api,
                             .type = type,
                             .n_inputs = n_inputs,
                             .user = user};
}

static OrtStatus *add_ops(struct oq_own_ops *ops, OrtSessionOptions *options) {
    struct oq_own_op *all[] = {&ops->observe, &ops->observe_reduced, &ops->mark};
    OrtStatus *ort = ops->api->CreateCustomOpDomain(OQ_OWN_DOMAIN, &ops->domain);
    for (size_t i = 0; i < sizeof all / sizeof all[0] && ort == NULL; i++) {
        ort = ops->api->CustomOpDomain_Add(ops->domain, &all[i]->base);
    }
    return ort != NULL ? ort : ops->api->AddCustomOpDomain(options, ops->domain);
}

enum onnxptq_status oq_own_ops_register(struct oq_own_ops *ops, const OrtApi *api,
                                        const struct oq_observer_hook *hook,
                                        struct oq_activity *activity, OrtSessionOptions *options,
                                        struct onnxptq_error *error) {
    *ops = (struct oq_own_ops){.api = api};
    fill(&ops->observe, api, OQ_OBSERVE_TYPE, 1, hook);
    ops->observe.base.CreateKernelV2 = create_observe;
    ops->observe.base.KernelComputeV2 = oq_observe_compute;
    fill(&ops->observe_reduced, api, OQ_OBSERVE_REDUCED_TYPE, 3, hook);
    ops->observe_reduced.base.CreateKernelV2 = create_reduced;
    ops->observe_reduced.base.KernelComputeV2 = oq_observe_reduced_compute;
    fill(&ops->mark, api, OQ_MARK_TYPE, 1, activity);
    ops->mark.base.CreateKernelV2 = create_mark;
    ops->mark.base.KernelComputeV2 = oq_mark_compute;
    ops->mark.base.KernelDestroy = oq_mark_destroy;
    return oq_ort_check(api, add_ops(ops, options), ONNXPTQ_ERROR_RUNTIME, error,
                        "cannot register the operators of observers");
}

void oq_own_ops_reset(struct oq_own_ops *ops) {
    if (ops->domain != NULL) {
        ops->api->ReleaseCustomOpDomain(ops->domain);
    }
    ops->domain = NULL;
}
