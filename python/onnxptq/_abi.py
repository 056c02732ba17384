"""Structs and enums of onnxptq.h. Written by tools/python-abi: do not edit."""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)

STATUS = {
    "ONNXPTQ_OK": 0,
    "ONNXPTQ_ERROR_USAGE": 1,
    "ONNXPTQ_ERROR_IO": 2,
    "ONNXPTQ_ERROR_MODEL": 3,
    "ONNXPTQ_ERROR_DATA": 4,
    "ONNXPTQ_ERROR_UNSUPPORTED": 5,
    "ONNXPTQ_ERROR_RUNTIME": 6,
    "ONNXPTQ_ERROR_MISSING_OPERATOR": 7,
    "ONNXPTQ_ERROR_LIBRARY": 8,
    "ONNXPTQ_ERROR_MEMORY": 9,
    "ONNXPTQ_ERROR_CANCELLED": 10,
    "ONNXPTQ_ERROR_QUALITY": 11,
    "ONNXPTQ_ERROR_INTERNAL": 12,
}

TYPE = {
    "ONNXPTQ_TYPE_UNDEFINED": 0,
    "ONNXPTQ_TYPE_FLOAT": 1,
    "ONNXPTQ_TYPE_UINT8": 2,
    "ONNXPTQ_TYPE_INT8": 3,
    "ONNXPTQ_TYPE_UINT16": 4,
    "ONNXPTQ_TYPE_INT16": 5,
    "ONNXPTQ_TYPE_INT32": 6,
    "ONNXPTQ_TYPE_INT64": 7,
    "ONNXPTQ_TYPE_STRING": 8,
    "ONNXPTQ_TYPE_BOOL": 9,
    "ONNXPTQ_TYPE_FLOAT16": 10,
    "ONNXPTQ_TYPE_DOUBLE": 11,
    "ONNXPTQ_TYPE_UINT32": 12,
    "ONNXPTQ_TYPE_UINT64": 13,
    "ONNXPTQ_TYPE_BFLOAT16": 16,
}

LOG_LEVEL = {
    "ONNXPTQ_LOG_WARNING": 1,
    "ONNXPTQ_LOG_INFO": 2,
    "ONNXPTQ_LOG_DEBUG": 3,
}

METHOD = {
    "ONNXPTQ_METHOD_MAX": 0,
    "ONNXPTQ_METHOD_PERCENTILE": 1,
    "ONNXPTQ_METHOD_ENTROPY": 2,
    "ONNXPTQ_METHOD_MSE": 3,
    "ONNXPTQ_METHOD_AUTO": 4,
}

FOREIGN_EDGES = {
    "ONNXPTQ_FOREIGN_FLOAT": 0,
    "ONNXPTQ_FOREIGN_FUSE": 1,
}

REPAIR = {
    "ONNXPTQ_REPAIR_AUTO": 0,
    "ONNXPTQ_REPAIR_ON": 1,
    "ONNXPTQ_REPAIR_OFF": 2,
}

EXTERNAL_DATA = {
    "ONNXPTQ_EXTERNAL_DATA_AUTO": 0,
    "ONNXPTQ_EXTERNAL_DATA_ALWAYS": 1,
    "ONNXPTQ_EXTERNAL_DATA_NEVER": 2,
}

OBSERVE = {
    "ONNXPTQ_OBSERVE_AUTO": 0,
    "ONNXPTQ_OBSERVE_HOST": 1,
    "ONNXPTQ_OBSERVE_DEVICE": 2,
}

DECISION = {
    "ONNXPTQ_DECISION_FLOAT": 0,
    "ONNXPTQ_DECISION_QUANTIZED": 1,
    "ONNXPTQ_DECISION_FOREIGN": 2,
    "ONNXPTQ_DECISION_EXCLUDED": 3,
}


class Error(Structure):
    _fields_ = [
        ("status", c_int),
        ("message", c_char * 8192),
    ]


class Tensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("rank", c_size_t),
        ("shape", c_int64 * 16),
        ("data", c_void_p),
        ("size", c_size_t),
    ]


class DataSource(Structure):
    _fields_ = [
        ("user", c_void_p),
        ("n_samples", c_size_t),
        ("read", CFUNCTYPE(c_int, c_void_p, c_size_t, POINTER(Tensor), c_size_t, POINTER(Error))),
    ]

ProgressFn = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_size_t, c_size_t)


class Activity(Structure):
    _fields_ = [
        ("stage", c_char_p),
        ("first_sample", c_size_t),
        ("n_samples", c_size_t),
        ("node", c_char_p),
        ("op", c_char_p),
        ("library", c_char_p),
    ]

ActivityFn = CFUNCTYPE(None, c_void_p, POINTER(Activity))

LogFn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class InputShape(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("rank", c_size_t),
        ("shape", c_int64 * 16),
    ]


class InputRange(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("low", c_double),
        ("high", c_double),
    ]


class RuntimeOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("ort_library", c_char_p),
        ("custom_op_libraries", POINTER(c_char_p)),
        ("n_custom_op_libraries", c_size_t),
        ("providers", POINTER(c_char_p)),
        ("n_providers", c_size_t),
        ("threads", c_int),
        ("provider_options", POINTER(c_char_p)),
        ("n_provider_options", c_size_t),
        ("trt_plugins", POINTER(c_char_p)),
        ("n_trt_plugins", c_size_t),
        ("trt_profile_min", POINTER(InputShape)),
        ("trt_profile_opt", POINTER(InputShape)),
        ("trt_profile_max", POINTER(InputShape)),
        ("n_trt_profile_min", c_size_t),
        ("n_trt_profile_opt", c_size_t),
        ("n_trt_profile_max", c_size_t),
        ("activity", ActivityFn),
        ("activity_user", c_void_p),
    ]


class QuantizeOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("runtime", POINTER(RuntimeOptions)),
        ("model_path", c_char_p),
        ("output_path", c_char_p),
        ("overwrite", c_bool),
        ("data_path", c_char_p),
        ("data", POINTER(DataSource)),
        ("random_samples", c_size_t),
        ("seed", c_uint64),
        ("input_shapes", POINTER(InputShape)),
        ("n_input_shapes", c_size_t),
        ("input_ranges", POINTER(InputRange)),
        ("n_input_ranges", c_size_t),
        ("max_samples", c_size_t),
        ("batch", c_size_t),
        ("target", c_char_p),
        ("method", c_int),
        ("percentile", c_double),
        ("op_types", POINTER(c_char_p)),
        ("n_op_types", c_size_t),
        ("exclude_op_types", POINTER(c_char_p)),
        ("n_exclude_op_types", c_size_t),
        ("nodes", POINTER(c_char_p)),
        ("n_nodes", c_size_t),
        ("exclude_nodes", POINTER(c_char_p)),
        ("n_exclude_nodes", c_size_t),
        ("size_rules", c_int),
        ("foreign_edges", c_int),
        ("progress", ProgressFn),
        ("progress_user", c_void_p),
        ("log", LogFn),
        ("log_user", c_void_p),
        ("external_data", c_int),
        ("external_data_threshold", c_uint64),
        ("external_data_above", c_uint64),
        ("observe", c_int),
        ("opset", c_int64),
        ("activation_type", c_int),
        ("quantize_outputs", c_int),
        ("high_precision", c_int),
        ("native_io", c_bool),
        ("keep_float_op_types", POINTER(c_char_p)),
        ("n_keep_float_op_types", c_size_t),
        ("keep_float_nodes", POINTER(c_char_p)),
        ("n_keep_float_nodes", c_size_t),
        ("half_op_types", POINTER(c_char_p)),
        ("n_half_op_types", c_size_t),
        ("convert_only", c_bool),
        ("min_sqnr", c_double),
        ("allow_low_quality", c_bool),
        ("repair", c_int),
        ("repair_db", c_double),
        ("min_int8_macs", c_double),
        ("repair_budget", c_double),
        ("ranges_path", c_char_p),
        ("save_ranges_path", c_char_p),
        ("images_path", c_char_p),
        ("preprocess", c_char_p),
        ("shard", c_size_t),
        ("n_shards", c_size_t),
        ("state_path", c_char_p),
        ("resume", c_bool),
        ("part", c_size_t),
        ("n_parts", c_size_t),
    ]


class NodeReport(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("op", c_char_p),
        ("decision", c_int),
        ("rule", c_char_p),
        ("reason", c_char_p),
        ("precision", c_char_p),
        ("precision_rule", c_char_p),
        ("precision_reason", c_char_p),
    ]


class TensorReport(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("scale", c_double),
        ("zero_point", c_int64),
        ("min", c_double),
        ("max", c_double),
        ("rule", c_char_p),
        ("reason", c_char_p),
    ]


class WeightReport(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("axis", c_int),
        ("channels", c_size_t),
        ("scale_min", c_double),
        ("scale_max", c_double),
    ]


class OutputReport(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("exact", c_bool),
        ("has_sqnr", c_bool),
        ("sqnr_db", c_double),
        ("max_abs_error", c_double),
    ]


class ProviderReport(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("keys", POINTER(c_char_p)),
        ("values", POINTER(c_char_p)),
        ("n_options", c_size_t),
    ]


class CandidateReport(Structure):
    _fields_ = [
        ("method", c_char_p),
        ("percentile", c_double),
        ("has_sqnr", c_bool),
        ("sqnr_db", c_double),
        ("output", c_char_p),
        ("chosen", c_bool),
    ]


class StageReport(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("seconds", c_double),
        ("processor_seconds", c_double),
    ]


class Report(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("model_path", c_char_p),
        ("output_path", c_char_p),
        ("target", c_char_p),
        ("method", c_char_p),
        ("runtime_version", c_char_p),
        ("custom_op_libraries", POINTER(c_char_p)),
        ("n_custom_op_libraries", c_size_t),
        ("inputs", POINTER(Tensor)),
        ("n_inputs", c_size_t),
        ("nodes", POINTER(NodeReport)),
        ("n_nodes", c_size_t),
        ("tensors", POINTER(TensorReport)),
        ("n_tensors", c_size_t),
        ("weights", POINTER(WeightReport)),
        ("n_weights", c_size_t),
        ("outputs", POINTER(OutputReport)),
        ("n_outputs", c_size_t),
        ("stages", POINTER(StageReport)),
        ("n_stages", c_size_t),
        ("notes", POINTER(c_char_p)),
        ("n_notes", c_size_t),
        ("n_calibration_samples", c_size_t),
        ("n_check_samples", c_size_t),
        ("held_back", c_bool),
        ("model_bytes", c_uint64),
        ("output_bytes", c_uint64),
        ("peak_anonymous_bytes", c_uint64),
        ("peak_resident_bytes", c_uint64),
        ("providers", POINTER(ProviderReport)),
        ("n_providers", c_size_t),
        ("output_data_path", c_char_p),
        ("temporary_bytes", c_uint64),
        ("measured_unoptimized", c_bool),
        ("requested_method", c_char_p),
        ("percentile", c_double),
        ("candidates", POINTER(CandidateReport)),
        ("n_candidates", c_size_t),
        ("n_choice_samples", c_size_t),
        ("n_choice_held_back", c_size_t),
    ]


class OpsetInfo(Structure):
    _fields_ = [
        ("domain", c_char_p),
        ("version", c_int64),
    ]


class OperatorInfo(Structure):
    _fields_ = [
        ("op", c_char_p),
        ("count", c_size_t),
        ("runnable", c_bool),
        ("foreign", c_bool),
        ("n_quantizable", c_size_t),
    ]


class Inspection(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("model_path", c_char_p),
        ("runtime_version", c_char_p),
        ("ir_version", c_int64),
        ("opsets", POINTER(OpsetInfo)),
        ("n_opsets", c_size_t),
        ("inputs", POINTER(Tensor)),
        ("n_inputs", c_size_t),
        ("outputs", POINTER(Tensor)),
        ("n_outputs", c_size_t),
        ("operators", POINTER(OperatorInfo)),
        ("n_operators", c_size_t),
        ("n_weights", c_size_t),
        ("weight_bytes", c_uint64),
        ("n_functions", c_size_t),
    ]
