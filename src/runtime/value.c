/*
 * Used by session.c.
 */
#include "runtime/value.h"

#include "base/number.h"
#include "base/size.h"
#include "runtime/ort.h"

enum onnxptq_status oq_value_create(const OrtApi *api, const OrtMemoryInfo *memory,
                                    const struct onnxptq_tensor *tensor, OrtValue **out,
                                    struct onnxptq_error *error) {
    static const double nothing = 0; /* what an empty tensor points to */
    size_t elements, bytes, element = oq_type_size((int)tensor->type);
    if (element == 0) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "cannot feed input '%s': elements of type %s cannot be fed", tensor->name,
                       onnxptq_type_name(tensor->type));
    }
    if (tensor->rank > ONNXPTQ_MAX_RANK ||
        !oq_shape_elements(tensor->shape, tensor->rank, &elements) ||
        !oq_size_mul(elements, element, &bytes) || bytes != tensor->size ||
        (bytes > 0 && tensor->data == NULL)) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot feed input '%s': its %zu bytes do not fit its shape and type",
                       tensor->name, tensor->size);
    }
    const void *data = bytes > 0 ? tensor->data : &nothing;
    /* The runtime does not write to inputs. */
    return oq_ort_check(api,
                        api->CreateTensorWithDataAsOrtValue(
                            memory, (void *)(uintptr_t)data, bytes, tensor->shape, tensor->rank,
                            (ONNXTensorElementDataType)tensor->type, out),
                        ONNXPTQ_ERROR_RUNTIME, error, "cannot feed input '%s'", tensor->name);
}

/* Type and shape; UNDEFINED when the rank is too high for us. */
static OrtStatus *read_shape(const OrtApi *api, const OrtTensorTypeAndShapeInfo *info,
                             struct onnxptq_tensor *out) {
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    size_t rank = 0;
    OrtStatus *ort = api->GetTensorElementType(info, &type);
    if (ort == NULL) {
        ort = api->GetDimensionsCount(info, &rank);
    }
    if (ort != NULL || rank > ONNXPTQ_MAX_RANK) {
        return ort;
    }
    ort = api->GetDimensions(info, out->shape, rank);
    if (ort != NULL) {
        return ort;
    }
    out->type = (enum onnxptq_type)type;
    out->rank = rank;
    return NULL;
}

static OrtStatus *read_data(const OrtApi *api, const OrtValue *value, struct onnxptq_tensor *out) {
    const OrtMemoryInfo *memory = NULL;
    OrtMemoryInfoDeviceType device = OrtMemoryInfoDeviceType_CPU;
    size_t elements, bytes, element = oq_type_size((int)out->type);
    OrtStatus *ort = api->GetTensorMemoryInfo(value, &memory);
    if (ort != NULL) {
        return ort;
    }
    api->MemoryInfoGetDeviceType(memory, &device);
    if (device != OrtMemoryInfoDeviceType_CPU || element == 0 ||
        !oq_shape_elements(out->shape, out->rank, &elements) ||
        !oq_size_mul(elements, element, &bytes)) {
        return NULL;
    }
    void *data = NULL;
    ort = api->GetTensorMutableData((OrtValue *)(uintptr_t)value, &data);
    out->data = data;
    out->size = bytes;
    return ort;
}

static OrtStatus *read_tensor(const OrtApi *api, const OrtValue *value,
                              struct onnxptq_tensor *out) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    OrtStatus *ort = api->GetTensorTypeAndShape(value, &info);
    if (ort != NULL) {
        return ort;
    }
    ort = read_shape(api, info, out);
    api->ReleaseTensorTypeAndShapeInfo(info);
    return ort != NULL || out->type == ONNXPTQ_TYPE_UNDEFINED ? ort : read_data(api, value, out);
}

enum onnxptq_status oq_value_read(const OrtApi *api, const OrtValue *value,
                                  struct onnxptq_tensor *out, struct onnxptq_error *error) {
    struct onnxptq_tensor tensor = {.name = out->name};
    int is_tensor = 0, has_value = 0;
    OrtStatus *ort = value == NULL ? NULL : api->IsTensor(value, &is_tensor);
    if (ort == NULL && is_tensor) {
        ort = api->HasValue(value, &has_value);
    }
    if (ort == NULL && has_value) {
        ort = read_tensor(api, value, &tensor);
    }
    OQ_TRY(
        oq_ort_check(api, ort, ONNXPTQ_ERROR_RUNTIME, error, "cannot read output '%s'", out->name));
    *out = tensor;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_value_read_declaration(const OrtApi *api, const OrtTypeInfo *info,
                                              struct onnxptq_tensor *out,
                                              struct onnxptq_error *error) {
    const OrtTensorTypeAndShapeInfo *tensor = NULL; /* borrowed; NULL for what is no tensor */
    enum ONNXType kind = ONNX_TYPE_UNKNOWN;
    OrtStatus *ort = api->GetOnnxTypeFromTypeInfo(info, &kind);
    if (ort == NULL && kind == ONNX_TYPE_TENSOR) {
        ort = api->CastTypeInfoToTensorInfo(info, &tensor);
    }
    if (ort == NULL && tensor != NULL) {
        ort = read_shape(api, tensor, out);
    }
    return oq_ort_check(api, ort, ONNXPTQ_ERROR_RUNTIME, error, "cannot read the type of '%s'",
                        out->name);
}
