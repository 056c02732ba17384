/*
 * Element types and half precision; see number.h.
 */
#include "base/number.h"

/* In the order of TensorProto.DataType. Complex types have no number class of ours but a size. */
static const struct {
    const char *name;
    unsigned char bits; /* 0: no fixed size */
} types[] = {
    {"undefined", 0},      {"float", 32},       {"uint8", 8},          {"int8", 8},
    {"uint16", 16},        {"int16", 16},       {"int32", 32},         {"int64", 64},
    {"string", 0},         {"bool", 8},         {"float16", 16},       {"double", 64},
    {"uint32", 32},        {"uint64", 64},      {"complex64", 64},     {"complex128", 128},
    {"bfloat16", 16},      {"float8e4m3fn", 8}, {"float8e4m3fnuz", 8}, {"float8e5m2", 8},
    {"float8e5m2fnuz", 8}, {"uint4", 4},        {"int4", 4},           {"float4e2m1", 4},
    {"float8e8m0", 8},     {"uint2", 2},        {"int2", 2},           {"float6e2m3", 6},
    {"float6e3m2", 6},
};

static bool is_known(int type) {
    return type >= 0 && (size_t)type < sizeof types / sizeof types[0];
}

const char *oq_type_name(int type) {
    return is_known(type) ? types[type].name : "unknown";
}

size_t oq_type_bits(int type) {
    return is_known(type) ? types[type].bits : 0;
}

size_t oq_type_size(int type) {
    const size_t bits = oq_type_bits(type);
    return bits % 8 == 0 ? bits / 8 : 0;
}

bool oq_type_is_float(int type) {
    return type == ONNXPTQ_TYPE_FLOAT || type == ONNXPTQ_TYPE_FLOAT16 ||
           type == ONNXPTQ_TYPE_BFLOAT16 || type == ONNXPTQ_TYPE_DOUBLE;
}

bool oq_type_is_half(int type) {
    return type == ONNXPTQ_TYPE_FLOAT16 || type == ONNXPTQ_TYPE_BFLOAT16;
}

static float float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float oq_half_to_float(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) {
        /* Zero and denormals: the fraction counts units of 2^-24, exactly. */
        const float magnitude = (float)fraction * 0x1p-24f;
        return float_from_bits(sign | bits_from_float(magnitude));
    }
    if (exponent == 0x1f) {
        return float_from_bits(sign | 0x7f800000u | fraction << 13);
    }
    return float_from_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

/* Drops the lowest `shift` bits (1 to 31), rounding half to even. */
static uint32_t shift_to_even(uint32_t value, unsigned shift) {
    const uint32_t half = 1u << (shift - 1);
    const uint32_t rest = value & ((half << 1) - 1u);
    const uint32_t kept = value >> shift;
    return kept + (rest > half || (rest == half && (kept & 1u) != 0) ? 1u : 0u);
}

uint16_t oq_float_to_half(float value) {
    const uint32_t bits = bits_from_float(value);
    const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u) {
        half = 0x7e00u | ((magnitude >> 13) & 0x1ffu); /* NaN stays one, quiet */
    } else if (magnitude >= 0x47800000u) {             /* 65536 and above */
        half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) { /* normal from 2^-14 on; a carry moves the exponent */
        half = shift_to_even(magnitude - (112u << 23), 13);
    } else if (magnitude >= 0x33000000u) { /* denormal from 2^-25 on, which is half a unit */
        const uint32_t exponent = magnitude >> 23;
        half = shift_to_even((magnitude & 0x7fffffu) | 0x800000u, 126u - exponent);
    } else {
        half = 0;
    }
    return (uint16_t)(sign | half);
}

float oq_bfloat16_to_float(uint16_t bits) {
    return float_from_bits((uint32_t)bits << 16);
}

uint16_t oq_float_to_bfloat16(float value) {
    const uint32_t bits = bits_from_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u); /* NaN stays one, quiet */
    }
    return (uint16_t)shift_to_even(bits, 16);
}

void oq_store_float(int type, double value, void *out) {
    const float single = oq_double_to_float(value);
    uint16_t half;
    switch (type) {
    case ONNXPTQ_TYPE_FLOAT: memcpy(out, &single, sizeof single); break;
    case ONNXPTQ_TYPE_DOUBLE: memcpy(out, &value, sizeof value); break;
    case ONNXPTQ_TYPE_FLOAT16:
    case ONNXPTQ_TYPE_BFLOAT16:
        half =
            type == ONNXPTQ_TYPE_FLOAT16 ? oq_float_to_half(single) : oq_float_to_bfloat16(single);
        memcpy(out, &half, sizeof half);
        break;
    default: break;
    }
}

void oq_convert_to_float(int type, const void *data, size_t n, float *out) {
    const uint8_t *bytes = data;
    switch (type) {
    case ONNXPTQ_TYPE_FLOAT:
        if (n > 0) {
            memcpy(out, bytes, n * sizeof *out);
        }
        break;
    case ONNXPTQ_TYPE_FLOAT16:
        for (size_t i = 0; i < n; i++) {
            out[i] = oq_half_to_float(oq_load_u16(bytes + 2 * i));
        }
        break;
    case ONNXPTQ_TYPE_BFLOAT16:
        for (size_t i = 0; i < n; i++) {
            out[i] = oq_bfloat16_to_float(oq_load_u16(bytes + 2 * i));
        }
        break;
    case ONNXPTQ_TYPE_DOUBLE:
        for (size_t i = 0; i < n; i++) {
            out[i] = oq_double_to_float(oq_load_f64(bytes + 8 * i));
        }
        break;
    default: break;
    }
}

void oq_convert_to_double(int type, const void *data, size_t n, double *out) {
    const uint8_t *bytes = data;
    switch (type) {
    case ONNXPTQ_TYPE_FLOAT:
        for (size_t i = 0; i < n; i++) {
            out[i] = (double)oq_load_f32(bytes + 4 * i);
        }
        break;
    case ONNXPTQ_TYPE_FLOAT16:
        for (size_t i = 0; i < n; i++) {
            out[i] = (double)oq_half_to_float(oq_load_u16(bytes + 2 * i));
        }
        break;
    case ONNXPTQ_TYPE_BFLOAT16:
        for (size_t i = 0; i < n; i++) {
            out[i] = (double)oq_bfloat16_to_float(oq_load_u16(bytes + 2 * i));
        }
        break;
    case ONNXPTQ_TYPE_DOUBLE:
        if (n > 0) {
            memcpy(out, bytes, n * sizeof *out);
        }
        break;
    default: break;
    }
}
