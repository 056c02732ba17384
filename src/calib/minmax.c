/*
 * Choosing a loop, and joining the results of blocks. The loops are in minmax_loops.h.
 */
#include "calib/minmax.h"

#include "base/number.h"
#include "calib/minmax_loops.h"

#include <math.h>

/* Elements; a block with a non-finite element is read twice, from the nearest cache. */
#define BLOCK 4096

bool oq_minmax_supports(enum oq_minmax_level level) {
    switch (level) {
    case OQ_MINMAX_BASE: return true;
#if defined(__x86_64__)
    case OQ_MINMAX_AVX2: return __builtin_cpu_supports("avx2");
    case OQ_MINMAX_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
    case OQ_MINMAX_AVX2:
    case OQ_MINMAX_AVX512: return false;
#endif
    case OQ_MINMAX_LEVELS: break;
    }
    return false;
}

enum oq_minmax_level oq_minmax_best(void) {
    if (oq_minmax_supports(OQ_MINMAX_AVX512)) {
        return OQ_MINMAX_AVX512;
    }
    return oq_minmax_supports(OQ_MINMAX_AVX2) ? OQ_MINMAX_AVX2 : OQ_MINMAX_BASE;
}

struct oq_extremes oq_extremes_none(void) {
    return (struct oq_extremes){.min = (double)INFINITY, .max = -(double)INFINITY};
}

void oq_extremes_merge(struct oq_extremes *extremes, const struct oq_extremes *other) {
    if (other->min < extremes->min) {
        extremes->min = other->min;
    }
    if (other->max > extremes->max) {
        extremes->max = other->max;
    }
    extremes->n_nan += other->n_nan;
    extremes->n_infinite += other->n_infinite;
}

/* ---- Floats ---- */

static double value_f16(int16_t bits) {
    return (double)oq_half_to_float((uint16_t)bits);
}

static double value_bf16(int16_t bits) {
    return (double)oq_bfloat16_to_float((uint16_t)bits);
}

static double value_f32(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double value_f64(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* oq_minmax_<name>(level, data, n): blocks of elements with their loop; a block is read again,
 * element by element masked, when its largest magnitude says that something in it is not finite.
 * Adding 0.0 turns -0.0 into 0.0. */
#define DEFINE_FLOAT(name, key_type, infinity_bits)                                                \
    static struct oq_extremes extremes_##name(const struct keys_##name *keys) {                    \
        struct oq_extremes extremes = oq_extremes_none();                                          \
        if (keys->min <= keys->max) {                                                              \
            extremes.min = value_##name(key_##name(keys->min)) + 0.0;                              \
            extremes.max = value_##name(key_##name(keys->max)) + 0.0;                              \
        }                                                                                          \
        extremes.n_nan = (uint64_t)keys->n_nan;                                                    \
        extremes.n_infinite = (uint64_t)keys->n_infinite;                                          \
        return extremes;                                                                           \
    }                                                                                              \
    static struct oq_extremes run_##name(enum oq_minmax_level level, const unsigned char *data,    \
                                         size_t n) {                                               \
        const struct loops_##name *loops = &all_##name[level];                                     \
        struct oq_extremes extremes = oq_extremes_none();                                          \
        for (size_t done = 0; done < n; done += BLOCK) {                                           \
            const unsigned char *block = data + done * sizeof(key_type);                           \
            size_t size = n - done < BLOCK ? n - done : BLOCK;                                     \
            struct keys_##name keys = loops->fast(block, size);                                    \
            if (keys.magnitude >= (infinity_bits)) {                                               \
                keys = loops->masked(block, size);                                                 \
            }                                                                                      \
            struct oq_extremes more = extremes_##name(&keys);                                      \
            oq_extremes_merge(&extremes, &more);                                                   \
        }                                                                                          \
        return extremes;                                                                           \
    }

DEFINE_FLOAT(f16, int16_t, OQ_F16_INFINITY)
DEFINE_FLOAT(bf16, int16_t, OQ_BF16_INFINITY)
DEFINE_FLOAT(f32, int32_t, OQ_F32_INFINITY)
DEFINE_FLOAT(f64, int64_t, OQ_F64_INFINITY)

/* ---- Integers ---- */

#define DEFINE_INTEGER(name, value_type)                                                           \
    static struct oq_extremes run_##name(enum oq_minmax_level level, const unsigned char *data,    \
                                         size_t n) {                                               \
        struct oq_extremes extremes = oq_extremes_none();                                          \
        (void)level;                                                                               \
        if (n == 0) {                                                                              \
            return extremes;                                                                       \
        }                                                                                          \
        value_type low, high;                                                                      \
        memcpy(&low, data, sizeof low);                                                            \
        high = low;                                                                                \
        for (size_t i = 1; i < n; i++) {                                                           \
            value_type value;                                                                      \
            memcpy(&value, data + i * sizeof value, sizeof value);                                 \
            low = value < low ? value : low;                                                       \
            high = value > high ? value : high;                                                    \
        }                                                                                          \
        extremes.min = (double)low;                                                                \
        extremes.max = (double)high;                                                               \
        return extremes;                                                                           \
    }

DEFINE_INTEGER(i8, int8_t)
DEFINE_INTEGER(u8, uint8_t)
DEFINE_INTEGER(i16, int16_t)
DEFINE_INTEGER(u16, uint16_t)
DEFINE_INTEGER(i32, int32_t)
DEFINE_INTEGER(u32, uint32_t)
DEFINE_INTEGER(i64, int64_t)
DEFINE_INTEGER(u64, uint64_t)

/* ---- By type ---- */

typedef struct oq_extremes (*run_fn)(enum oq_minmax_level level, const unsigned char *data,
                                     size_t n);

static const run_fn runs[] = {
    [ONNXPTQ_TYPE_FLOAT] = run_f32,     [ONNXPTQ_TYPE_UINT8] = run_u8,
    [ONNXPTQ_TYPE_INT8] = run_i8,       [ONNXPTQ_TYPE_UINT16] = run_u16,
    [ONNXPTQ_TYPE_INT16] = run_i16,     [ONNXPTQ_TYPE_INT32] = run_i32,
    [ONNXPTQ_TYPE_INT64] = run_i64,     [ONNXPTQ_TYPE_BOOL] = run_u8,
    [ONNXPTQ_TYPE_FLOAT16] = run_f16,   [ONNXPTQ_TYPE_DOUBLE] = run_f64,
    [ONNXPTQ_TYPE_UINT32] = run_u32,    [ONNXPTQ_TYPE_UINT64] = run_u64,
    [ONNXPTQ_TYPE_BFLOAT16] = run_bf16,
};

bool oq_minmax_knows(int type) {
    return type >= 0 && (size_t)type < sizeof runs / sizeof runs[0] && runs[type] != NULL;
}

struct oq_extremes oq_minmax_run(enum oq_minmax_level level, int type, const void *data, size_t n) {
    return runs[type](level, data, n);
}
