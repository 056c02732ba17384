/* custom_domain::DummyOp whose kernel is for a provider that no processor has. */
#include "op_common.h"

static OrtStatus *never(struct kernel *kernel, OrtKernelContext *context) {
    (void)context;
    return kernel->api->CreateStatus(ORT_FAIL, "no device");
}

static const char *cuda(const OrtCustomOp *op) {
    (void)op;
    return "CUDAExecutionProvider";
}

static struct test_op ops[] = {
    {.name = "DummyOp",
     .inputs = {FLOAT_EDGE},
     .input_count = 1,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .compute = never},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    const OrtApi *api = base->GetApi(ORT_API_VERSION);
    OrtCustomOpDomain *domain = NULL;
    TRY(api->CreateCustomOpDomain("custom_domain", &domain));
    fill_callbacks(&ops[0].base);
    ops[0].base.GetExecutionProviderType = cuda;
    TRY(api->CustomOpDomain_Add(domain, &ops[0].base));
    return api->AddCustomOpDomain(options, domain);
}
