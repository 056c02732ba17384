/*
 * What this processor has.
 */
#include "calib/vector.h"

bool oq_vector_supports(enum oq_vector_level level) {
    switch (level) {
    case OQ_VECTOR_BASE: return true;
#if defined(__x86_64__)
    case OQ_VECTOR_AVX2: return __builtin_cpu_supports("avx2");
    case OQ_VECTOR_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
    case OQ_VECTOR_AVX2:
    case OQ_VECTOR_AVX512: return false;
#endif
    case OQ_VECTOR_LEVELS: break;
    }
    return false;
}

enum oq_vector_level oq_vector_best(void) {
    if (oq_vector_supports(OQ_VECTOR_AVX512)) {
        return OQ_VECTOR_AVX512;
    }
    return oq_vector_supports(OQ_VECTOR_AVX2) ? OQ_VECTOR_AVX2 : OQ_VECTOR_BASE;
}
