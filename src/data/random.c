/*
 * xoshiro256** (Blackman and Vigna, 2018) seeded through splitmix64, normals by Marsaglia's polar
 * method: of the math library it needs log and sqrt alone, so that results agree wherever log does.
 */
#include "data/random.h"

#include <math.h>

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void oq_random_init(struct oq_random *random, uint64_t seed, uint64_t sample, const char *input) {
    uint64_t key = mix(mix(seed) ^ sample);
    for (const char *c = input; *c != '\0'; c++) {
        key = mix(key ^ (unsigned char)*c);
    }
    for (uint64_t i = 0; i < 4; i++) {
        random->state[i] = mix(key + i * 0x9e3779b97f4a7c15u);
    }
    random->has_spare = false;
    random->spare = 0;
}

static uint64_t rotate(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

uint64_t oq_random_bits(struct oq_random *random) {
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9, shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

double oq_random_unit(struct oq_random *random) {
    return (double)(oq_random_bits(random) >> 11) * 0x1p-53;
}

double oq_random_normal(struct oq_random *random) {
    if (random->has_spare) {
        random->has_spare = false;
        return random->spare;
    }
    double x = 0, y = 0, square = 0;
    do {
        x = 2 * oq_random_unit(random) - 1;
        y = 2 * oq_random_unit(random) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    double factor = sqrt(-2 * log(square) / square);
    random->has_spare = true;
    random->spare = y * factor;
    return x * factor;
}

/* Draws below the largest multiple of the span, so that every value is equally likely. */
int64_t oq_random_integer(struct oq_random *random, int64_t low, int64_t high) {
    uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    uint64_t bits = oq_random_bits(random);
    if (span == 0) {
        return (int64_t)bits;
    }
    uint64_t limit = UINT64_MAX - UINT64_MAX % span;
    while (bits >= limit) {
        bits = oq_random_bits(random);
    }
    return (int64_t)((uint64_t)low + bits % span);
}
