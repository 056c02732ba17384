/*
 * Instruction sets that the loops over tensors are compiled for: the same portable C, once for each
 * (minmax_loops.h, histogram_loops.h). Results have the same bits on all of them.
 */
#ifndef OQ_CALIB_VECTOR_H
#define OQ_CALIB_VECTOR_H

#include <stdbool.h>

/* BASE is what every processor of the platform has (NEON on aarch64). */
enum oq_vector_level { OQ_VECTOR_BASE, OQ_VECTOR_AVX2, OQ_VECTOR_AVX512, OQ_VECTOR_LEVELS };

bool oq_vector_supports(enum oq_vector_level level); /* by this processor */
enum oq_vector_level oq_vector_best(void);

#define TARGET_base
#if defined(__x86_64__)
#define TARGET_avx2 __attribute__((target("avx2")))
#define TARGET_avx512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#endif

#endif
