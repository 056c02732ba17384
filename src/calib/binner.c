/*
 * Blocks of elements to bin numbers to counts to the histogram. The loops are in
 * histogram_loops.h.
 */
#include "calib/binner.h"

#include "base/number.h"
#include "calib/histogram_loops.h"

#include <stdlib.h>

#define BLOCK 4096         /* elements: their bits and bin numbers stay in the nearest cache */
#define CHUNK (15 * BLOCK) /* elements: no count of 16 bits overflows */
#define FEW 512            /* elements: going through them is quicker than through octaves */
#define OCTAVE_BINS (1 << OQ_HISTOGRAM_BITS)
#define FIRST_FIELD 1 /* exponent field of the least normal float */
#define NONFINITE_FIELD 255
#define FIELD_BIAS 127
#define N_COUNTS ((size_t)2 << OQ_SIGN_SHIFT)

struct oq_binner {
    uint16_t *counts; /* by bin number: all zero between calls */
    uint32_t numbers[BLOCK];
    uint32_t bits[BLOCK]; /* of a block of another type than float */
};

struct oq_binner *oq_binner_create(void) {
    struct oq_binner *binner = malloc(sizeof *binner);
    if (binner == NULL) {
        return NULL;
    }
    /* Of these 2 MiB only what is counted in is ever touched. */
    binner->counts = calloc(N_COUNTS, sizeof *binner->counts);
    if (binner->counts == NULL) {
        free(binner);
        return NULL;
    }
    return binner;
}

void oq_binner_destroy(struct oq_binner *binner) {
    if (binner != NULL) {
        free(binner->counts);
    }
    free(binner);
}

bool oq_binner_knows(int type) {
    return oq_type_is_float(type);
}

/* ---- Elements to bits of float32 ---- */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void from_double(const unsigned char *data, size_t n, uint32_t *out) {
    for (size_t i = 0; i < n; i++) {
        double value = oq_load_f64(data + i * sizeof value);
        float nearest = oq_double_to_float(value);
        bool beyond = isinf(nearest) && isfinite(value);
        out[i] = beyond ? bits_of(copysignf(FLT_MAX, nearest)) : bits_of(nearest);
    }
}

static const unsigned char *block_bits(struct oq_binner *binner, enum oq_vector_level level,
                                       int type, const unsigned char *data, size_t n) {
    switch (type) {
    case ONNXPTQ_TYPE_FLOAT: return data;
    case ONNXPTQ_TYPE_FLOAT16: histogram_loops[level].from_half(data, n, binner->bits); break;
    case ONNXPTQ_TYPE_BFLOAT16: histogram_loops[level].from_bfloat16(data, n, binner->bits); break;
    default: from_double(data, n, binner->bits); break;
    }
    return (const unsigned char *)binner->bits;
}

/* ---- Counts to the histogram ---- */

static int field_of(int32_t magnitude) {
    return (int)(magnitude >> 23);
}

static int floor_field(const struct oq_histogram *histogram) {
    size_t n = oq_histogram_n_octaves(histogram);
    if (n < OQ_HISTOGRAM_OCTAVES) {
        return FIRST_FIELD;
    }
    return oq_histogram_exponent(histogram, n - 1) + FIELD_BIAS;
}

static uint16_t *octave_counts(struct oq_binner *binner, int field, bool negative) {
    return binner->counts + ((size_t)negative << OQ_SIGN_SHIFT) + (size_t)field * OCTAVE_BINS;
}

/* Where elements below the floor were counted. */
static void clear_lanes(struct oq_binner *binner, int floor) {
    for (int negative = 0; negative < 2; negative++) {
        uint16_t *counts = octave_counts(binner, floor, negative);
        memset(counts - OQ_LANES, 0, OQ_LANES * sizeof *counts);
    }
}

/* Clears the counts of one sign of an octave, after adding them where it is one of finite numbers;
 * gives their sum, which fits as that of a chunk does. */
static uint16_t take_octave(struct oq_binner *binner, const struct histogram_loops *loops,
                            int field, bool negative, struct oq_histogram *histogram, bool *good) {
    uint16_t *counts = octave_counts(binner, field, negative);
    uint16_t sum = loops->sum(counts, OCTAVE_BINS);
    if (sum == 0) {
        return 0;
    }
    if (field != NONFINITE_FIELD &&
        !oq_histogram_add_counts(histogram, field - FIELD_BIAS, negative, counts, sum)) {
        *good = false;
    }
    memset(counts, 0, OCTAVE_BINS * sizeof *counts);
    return sum;
}

static bool flush(struct oq_binner *binner, const struct histogram_loops *loops, int floor,
                  struct magnitudes seen, size_t n, struct oq_histogram *histogram) {
    int top = field_of(seen.greatest), bottom = field_of(seen.least);
    bool good = true;
    if (bottom < floor) {
        bottom = floor;
    }
    /* From the top: each octave finds the place where it stays. */
    for (int field = top; field >= bottom; field--) {
        size_t sum = take_octave(binner, loops, field, false, histogram, &good);
        sum += take_octave(binner, loops, field, true, histogram, &good);
        if (field == NONFINITE_FIELD) {
            n -= sum;
        }
    }
    clear_lanes(binner, floor);
    oq_histogram_add_total(histogram, n);
    return good;
}

/* ---- Chunks ---- */

static void count(uint16_t *restrict counts, const uint32_t *restrict numbers, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        counts[numbers[i]]++;
        counts[numbers[i + 1]]++;
        counts[numbers[i + 2]]++;
        counts[numbers[i + 3]]++;
    }
    for (; i < n; i++) {
        counts[numbers[i]]++;
    }
}

static bool add_chunk(struct oq_binner *binner, enum oq_vector_level level, int type,
                      const unsigned char *data, size_t n, struct oq_histogram *histogram) {
    const struct histogram_loops *loops = &histogram_loops[level];
    int floor = floor_field(histogram);
    size_t item = oq_type_size(type);
    struct magnitudes seen = {INT32_MAX, 0};
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t size = n - done < BLOCK ? n - done : BLOCK;
        const unsigned char *bits = block_bits(binner, level, type, data + done * item, size);
        struct magnitudes more = loops->number(bits, size, floor * OCTAVE_BINS, binner->numbers);
        count(binner->counts, binner->numbers, size);
        if (more.least < seen.least) {
            seen.least = more.least;
        }
        if (more.greatest > seen.greatest) {
            seen.greatest = more.greatest;
        }
    }
    return flush(binner, loops, floor, seen, n, histogram);
}

static bool add_few(struct oq_binner *binner, enum oq_vector_level level, int type,
                    const unsigned char *data, size_t n, struct oq_histogram *histogram) {
    const unsigned char *bits = block_bits(binner, level, type, data, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t number = oq_load_u32(bits + i * sizeof number) >> OQ_DROPPED_BITS;
        int field = (int)(number / OCTAVE_BINS) & 0xff;
        if (field == NONFINITE_FIELD) {
            continue;
        }
        oq_histogram_add_total(histogram, 1);
        if (field >= FIRST_FIELD &&
            !oq_histogram_add_one(histogram, field - FIELD_BIAS, number >> OQ_SIGN_SHIFT != 0,
                                  number % OCTAVE_BINS)) {
            return false;
        }
    }
    return true;
}

bool oq_binner_add(struct oq_binner *binner, enum oq_vector_level level, int type, const void *data,
                   size_t n, struct oq_histogram *histogram) {
    const unsigned char *bytes = data;
    size_t item = oq_type_size(type);
    if (n <= FEW) {
        return add_few(binner, level, type, bytes, n, histogram);
    }
    for (size_t done = 0; done < n; done += CHUNK) {
        size_t size = n - done < CHUNK ? n - done : CHUNK;
        if (!add_chunk(binner, level, type, bytes + done * item, size, histogram)) {
            return false;
        }
    }
    return true;
}
