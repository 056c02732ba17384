/*
 * Pseudo-random numbers of calibration data: the same for the same seed on every machine.
 */
#ifndef OQ_DATA_RANDOM_H
#define OQ_DATA_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct oq_random {
    uint64_t state[4];
    bool has_spare; /* normals come in pairs */
    double spare;
};

/* A stream of its own for every (seed, sample, input): no sample depends on which were drawn before
 * it. */
void oq_random_init(struct oq_random *random, uint64_t seed, uint64_t sample, const char *input);
uint64_t oq_random_bits(struct oq_random *random);
/* Uniform in [0, 1), a multiple of 2^-53. */
double oq_random_unit(struct oq_random *random);
/* Standard normal. */
double oq_random_normal(struct oq_random *random);
/* Uniform in [low, high], both included; low <= high. */
int64_t oq_random_integer(struct oq_random *random, int64_t low, int64_t high);

#endif
