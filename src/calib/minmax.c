/*
 * Choosing a loop, and joining the results of blocks. The loops are in minmax_loops.h.
 */
#include "calib/minmax.h"

#include "base/number.h"
#include "calib/minmax_loops.h"

#include <math.h>

#define BLOCK                                                                                      \
    4096 /* elements; a block with a far or non-finite element is read twice, from nearest cache   \
          */

struct oq_extremes oq_extremes_none(void) {
    return (struct oq_extremes){.min = (double)INFINITY,
                                .max = -(double)INFINITY,
                                .near_min = (double)INFINITY,
                                .near_max = -(double)INFINITY,
                                .far_least = (double)INFINITY};
}

static void lower(double *least, double other) {
    if (other < *least) {
        *least = other;
    }
}

static void raise_to(double *greatest, double other) {
    if (other > *greatest) {
        *greatest = other;
    }
}

void oq_extremes_merge(struct oq_extremes *extremes, const struct oq_extremes *other) {
    lower(&extremes->min, other->min);
    raise_to(&extremes->max, other->max);
    lower(&extremes->near_min, other->near_min);
    raise_to(&extremes->near_max, other->near_max);
    lower(&extremes->far_least, other->far_least);
    extremes->n_far += other->n_far;
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

/* run_<name>(level, data, n): blocks of elements with their loop; a block is read again, with near,
 * far and other elements kept apart, when its largest magnitude says that not all are near. Adding
 * 0.0 turns -0.0 into 0.0. */
#define DEFINE_FLOAT(name, key_type, far_bits)                                                     \
    static struct oq_extremes extremes_##name(const struct keys_##name *keys) {                    \
        struct oq_extremes extremes = oq_extremes_none();                                          \
        if (keys->min <= keys->max) {                                                              \
            extremes.near_min = value_##name(key_##name(keys->min)) + 0.0;                         \
            extremes.near_max = value_##name(key_##name(keys->max)) + 0.0;                         \
            extremes.min = extremes.near_min;                                                      \
            extremes.max = extremes.near_max;                                                      \
        }                                                                                          \
        if (keys->n_far > 0) {                                                                     \
            lower(&extremes.min, value_##name(key_##name(keys->far_min)));                         \
            raise_to(&extremes.max, value_##name(key_##name(keys->far_max)));                      \
            extremes.far_least = value_##name(keys->far_least);                                    \
        }                                                                                          \
        extremes.n_far = (uint64_t)keys->n_far;                                                    \
        extremes.n_nan = (uint64_t)keys->n_nan;                                                    \
        extremes.n_infinite = (uint64_t)keys->n_infinite;                                          \
        return extremes;                                                                           \
    }                                                                                              \
    static struct oq_extremes run_##name(enum oq_vector_level level, const unsigned char *data,    \
                                         size_t n) {                                               \
        const struct loops_##name *loops = &all_##name[level];                                     \
        struct oq_extremes extremes = oq_extremes_none();                                          \
        for (size_t done = 0; done < n; done += BLOCK) {                                           \
            const unsigned char *block = data + done * sizeof(key_type);                           \
            size_t size = n - done < BLOCK ? n - done : BLOCK;                                     \
            struct keys_##name keys = loops->fast(block, size);                                    \
            if (keys.magnitude >= (far_bits))                                                      \
                keys = loops->masked(block, size);                                                 \
            struct oq_extremes more = extremes_##name(&keys);                                      \
            oq_extremes_merge(&extremes, &more);                                                   \
        }                                                                                          \
        return extremes;                                                                           \
    }

DEFINE_FLOAT(f16, int16_t, OQ_F16_FAR)
DEFINE_FLOAT(bf16, int16_t, OQ_BF16_FAR)
DEFINE_FLOAT(f32, int32_t, OQ_F32_FAR)
DEFINE_FLOAT(f64, int64_t, OQ_F64_FAR)

/* ---- Integers ---- */

#define DEFINE_INTEGER(name, value_type)                                                           \
    static struct oq_extremes run_##name(enum oq_vector_level level, const unsigned char *data,    \
                                         size_t n) {                                               \
        struct oq_extremes extremes = oq_extremes_none();                                          \
        (void)level;                                                                               \
        if (n == 0)                                                                                \
            return extremes;                                                                       \
        value_type low, high;                                                                      \
        memcpy(&low, data, sizeof low);                                                            \
        high = low;                                                                                \
        for (size_t i = 1; i < n; i++) {                                                           \
            value_type value;                                                                      \
            memcpy(&value, data + i * sizeof value, sizeof value);                                 \
            low = value < low ? value : low;                                                       \
            high = value > high ? value : high;                                                    \
        }                                                                                          \
        extremes.min = extremes.near_min = (double)low;                                            \
        extremes.max = extremes.near_max = (double)high;                                           \
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

typedef struct oq_extremes (*run_fn)(enum oq_vector_level level, const unsigned char *data,
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

struct oq_extremes oq_minmax_run(enum oq_vector_level level, int type, const void *data, size_t n) {
    return runs[type](level, data, n);
}
