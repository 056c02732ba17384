/*
 * Octaves in their places, and adding to them. Counting single tensors is binner.c's.
 */
#include "calib/histogram.h"

#include <stdlib.h>
#include <string.h>

#define FULL_BINS ((size_t)1 << OQ_HISTOGRAM_BITS)
#define LOW_LIMIT ((uint64_t)1 << 32)

/* The bins of one sign of an octave. A count is high * 2^32 + low; there is no `high` before the
 * sum of all of them needs it. */
struct side {
    uint32_t *low, *high; /* NULL: all zero */
    uint64_t total;
};

struct octave {
    int exponent;
    unsigned bits;
    struct side sides[2];
};

struct oq_histogram {
    struct octave octaves[OQ_HISTOGRAM_OCTAVES]; /* the highest first */
    size_t n;
    uint64_t total;
};

struct oq_histogram *oq_histogram_create(void) {
    return calloc(1, sizeof(struct oq_histogram));
}

static void clear_octave(struct octave *octave) {
    for (size_t i = 0; i < 2; i++) {
        free(octave->sides[i].low);
        free(octave->sides[i].high);
    }
    *octave = (struct octave){0};
}

void oq_histogram_destroy(struct oq_histogram *histogram) {
    for (size_t i = 0; histogram != NULL && i < histogram->n; i++) {
        clear_octave(&histogram->octaves[i]);
    }
    free(histogram);
}

unsigned oq_histogram_place_bits(size_t place) {
    if (place < OQ_HISTOGRAM_FINE) {
        return OQ_HISTOGRAM_BITS;
    }
    size_t lost = place - OQ_HISTOGRAM_FINE + 1;
    return lost < OQ_HISTOGRAM_BITS ? OQ_HISTOGRAM_BITS - (unsigned)lost : 0;
}

/* ---- Places ---- */

static void add_pairs(uint32_t *low, uint32_t *high, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t sum = low[2 * i] + low[2 * i + 1];
        if (high != NULL) {
            high[i] = high[2 * i] + high[2 * i + 1] + (sum < low[2 * i]);
        }
        low[i] = sum;
    }
}

static void give_back(uint32_t **counts, size_t n) {
    uint32_t *smaller = *counts != NULL ? realloc(*counts, n * sizeof *smaller) : NULL;
    if (smaller != NULL) {
        *counts = smaller;
    }
}

static void coarsen(struct octave *octave, unsigned bits) {
    for (size_t i = 0; i < 2 && octave->bits > bits; i++) {
        struct side *side = &octave->sides[i];
        for (unsigned b = octave->bits; side->low != NULL && b > bits; b--) {
            add_pairs(side->low, side->high, (size_t)1 << (b - 1));
        }
        give_back(&side->low, (size_t)1 << bits);
        give_back(&side->high, (size_t)1 << bits);
    }
    octave->bits = bits;
}

static size_t place_of(const struct oq_histogram *histogram, int exponent) {
    size_t place = 0;
    while (place < histogram->n && histogram->octaves[place].exponent > exponent) {
        place++;
    }
    return place;
}

/* The octave of that exponent, made when there is none; NULL when it is too low to be kept. */
static struct octave *take_place(struct oq_histogram *histogram, int exponent) {
    size_t place = place_of(histogram, exponent);
    if (place == OQ_HISTOGRAM_OCTAVES) {
        return NULL;
    }
    struct octave *octave = &histogram->octaves[place];
    if (place < histogram->n && octave->exponent == exponent) {
        return octave;
    }
    if (histogram->n == OQ_HISTOGRAM_OCTAVES) {
        clear_octave(&histogram->octaves[--histogram->n]);
    }
    memmove(octave + 1, octave, (histogram->n - place) * sizeof *octave);
    histogram->n++;
    *octave = (struct octave){.exponent = exponent, .bits = oq_histogram_place_bits(place)};
    for (size_t i = place + 1; i < histogram->n && i < OQ_HISTOGRAM_OCTAVES; i++) {
        coarsen(&histogram->octaves[i], oq_histogram_place_bits(i));
    }
    return octave;
}

/* ---- Adding ---- */

static size_t n_bins_of(const struct octave *octave) {
    return (size_t)1 << octave->bits;
}

/* Room for `more` further values in the bins of a side. */
static bool make_room(struct side *side, size_t n_bins, uint64_t more) {
    if (side->low == NULL) {
        side->low = calloc(n_bins, sizeof *side->low);
    }
    if (side->low == NULL) {
        return false;
    }
    if (side->high == NULL && (more >= LOW_LIMIT || side->total + more >= LOW_LIMIT)) {
        side->high = calloc(n_bins, sizeof *side->high);
        if (side->high == NULL) {
            return false;
        }
    }
    side->total += more;
    return true;
}

static void add_to_bin(struct side *side, size_t bin, uint64_t count) {
    uint32_t before = side->low[bin];
    side->low[bin] += (uint32_t)count;
    if (side->high != NULL) {
        side->high[bin] += (uint32_t)(count >> 32) + (side->low[bin] < before);
    }
}

/* Both of a pair are read as one number, which compilers know to do several at a time. */
static void add_count_pairs(const uint16_t *restrict counts, uint16_t *restrict sums, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t pair;
        memcpy(&pair, counts + 2 * i, sizeof pair);
        sums[i] = (uint16_t)((pair & 0xffffU) + (pair >> 16));
    }
}

static void add_to_side(struct side *side, unsigned bits, const uint16_t *counts) {
    uint16_t sums[2][FULL_BINS / 2];
    size_t n = (size_t)1 << bits;
    unsigned turn = 0;
    for (size_t width = FULL_BINS / 2; width >= n; width /= 2, turn ^= 1U) {
        add_count_pairs(counts, sums[turn], width);
        counts = sums[turn];
    }
    for (size_t i = 0; side->high == NULL && i < n; i++) {
        side->low[i] += counts[i];
    }
    for (size_t i = 0; side->high != NULL && i < n; i++) {
        add_to_bin(side, i, counts[i]);
    }
}

void oq_histogram_add_total(struct oq_histogram *histogram, uint64_t n) {
    histogram->total += n;
}

bool oq_histogram_add_counts(struct oq_histogram *histogram, int exponent, bool negative,
                             const uint16_t *counts, uint16_t sum) {
    struct octave *octave = take_place(histogram, exponent);
    if (octave == NULL) {
        return true;
    }
    if (!make_room(&octave->sides[negative], n_bins_of(octave), sum)) {
        return false;
    }
    add_to_side(&octave->sides[negative], octave->bits, counts);
    return true;
}

bool oq_histogram_add_one(struct oq_histogram *histogram, int exponent, bool negative, size_t bin) {
    struct octave *octave = take_place(histogram, exponent);
    if (octave == NULL) {
        return true;
    }
    if (!make_room(&octave->sides[negative], n_bins_of(octave), 1)) {
        return false;
    }
    add_to_bin(&octave->sides[negative], bin >> (OQ_HISTOGRAM_BITS - octave->bits), 1);
    return true;
}

static uint64_t count_of(const struct side *side, size_t bin) {
    if (side->low == NULL) {
        return 0;
    }
    uint64_t high = side->high != NULL ? side->high[bin] : 0;
    return high << 32 | side->low[bin];
}

static bool merge_side(struct octave *octave, const struct octave *other, bool negative) {
    const struct side *from = &other->sides[negative];
    struct side *side = &octave->sides[negative];
    if (from->total == 0) {
        return true;
    }
    if (!make_room(side, n_bins_of(octave), from->total)) {
        return false;
    }
    /* An octave never has more bins in the union than it has in either part. */
    unsigned shift = other->bits - octave->bits;
    bool small = side->high == NULL && shift == 0;
    for (size_t i = 0; small && i < n_bins_of(other); i++) {
        side->low[i] += from->low[i];
    }
    for (size_t i = 0; !small && i < n_bins_of(other); i++) {
        add_to_bin(side, i >> shift, count_of(from, i));
    }
    return true;
}

bool oq_histogram_merge(struct oq_histogram *histogram, const struct oq_histogram *other) {
    /* From the top: what is above an octave, and hence its place, is then final. */
    for (size_t i = 0; i < other->n; i++) {
        struct octave *octave = take_place(histogram, other->octaves[i].exponent);
        if (octave == NULL) {
            break;
        }
        if (!merge_side(octave, &other->octaves[i], false) ||
            !merge_side(octave, &other->octaves[i], true)) {
            return false;
        }
    }
    histogram->total += other->total;
    return true;
}

/* ---- What it holds ---- */

uint64_t oq_histogram_total(const struct oq_histogram *histogram) {
    return histogram->total;
}

uint64_t oq_histogram_low(const struct oq_histogram *histogram) {
    uint64_t low = histogram->total;
    for (size_t i = 0; i < histogram->n; i++) {
        low -= histogram->octaves[i].sides[0].total + histogram->octaves[i].sides[1].total;
    }
    return low;
}

size_t oq_histogram_n_octaves(const struct oq_histogram *histogram) {
    return histogram->n;
}

int oq_histogram_exponent(const struct oq_histogram *histogram, size_t place) {
    return histogram->octaves[place].exponent;
}

uint64_t oq_histogram_octave_total(const struct oq_histogram *histogram, size_t place,
                                   bool negative) {
    return histogram->octaves[place].sides[negative].total;
}

uint64_t oq_histogram_count(const struct oq_histogram *histogram, size_t place, bool negative,
                            size_t bin) {
    return count_of(&histogram->octaves[place].sides[negative], bin);
}

/* ---- From a file ---- */

static bool sum_restored(const uint64_t *counts, size_t n, uint64_t room, uint64_t *sum) {
    *sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (counts[i] > room - *sum) {
            return false;
        }
        *sum += counts[i];
    }
    return *sum > 0;
}

bool oq_histogram_restore(struct oq_histogram *histogram, int exponent, bool negative,
                          const uint64_t *counts, size_t n) {
    size_t last = histogram->n - 1;
    bool same = histogram->n > 0 && histogram->octaves[last].exponent == exponent;
    if (exponent < OQ_HISTOGRAM_MIN_EXPONENT || exponent > OQ_HISTOGRAM_MAX_EXPONENT ||
        (!same && place_of(histogram, exponent) < histogram->n)) {
        return false;
    }
    size_t place = same ? last : histogram->n;
    uint64_t sum = 0;
    if (place >= OQ_HISTOGRAM_OCTAVES || n != (size_t)1 << oq_histogram_place_bits(place) ||
        !sum_restored(counts, n, oq_histogram_low(histogram), &sum)) {
        return false;
    }
    struct octave *octave = take_place(histogram, exponent);
    if (octave == NULL || octave->sides[negative].total > 0 ||
        !make_room(&octave->sides[negative], n, sum)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        add_to_bin(&octave->sides[negative], i, counts[i]);
    }
    return true;
}
