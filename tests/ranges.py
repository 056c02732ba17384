"""The calibration methods of docs/formulas.md, written down directly in numpy: histograms of raw values, distributions as
arrays, errors by quantizing. Slow, and independent of the tool."""

import numpy as np

PLACES, FINE = 15, 4
STEPS = 64
BITS8 = {"tensorrt": (-128, 127, True), "onnxruntime": (0, 255, False)}


def without_masks(x):
    """The finite values of an array that are no masks, in double."""
    x = x[np.isfinite(x)].astype(np.float64)
    near, far = x[np.abs(x) < 2**24], x[np.abs(x) >= 2**24]
    if far.size and near.any() and np.abs(far).min() >= 2**16 * np.abs(near).max():
        return near
    return x


def octaves(x):
    """Exponents of the octaves that hold anything, from the highest, and log2 of their bins. Masks take places as everything
    does, and are then left out."""
    a = np.abs(x[np.isfinite(x)].astype(np.float64))
    exponents = np.unique(np.frexp(a[a >= 2.0**-126])[1] - 1)[::-1][:PLACES]
    highest = np.frexp(np.abs(without_masks(x)).max())[1] - 1
    places = [(int(e), 11 if place < FINE else 14 - place) for place, e in enumerate(exponents)]
    return [(e, bits) for e, bits in places if e <= highest]


def bins(x):
    """Edges of the bins of magnitudes, ascending."""
    edges = []
    for exponent, bits in reversed(octaves(x)):
        start = 2.0**exponent
        if not edges or edges[-1] != start:
            edges.append(start)
        edges += [start * (1 + (i + 1) / 2**bits) for i in range(2**bits)]
    return np.array(edges)


def limits(x, levels):
    """Every limit that a search tries, the largest first."""
    amax = np.abs(without_masks(x)).max()
    tried = [amax]
    for exponent, bits in octaves(x):
        if 2**bits >= levels:
            steps = 2.0**exponent * (1 + np.arange(STEPS, 0, -1) / STEPS)
            tried += [t for t in steps if t < amax]
    return tried


def within(x, limit, symmetric):
    return (
        (-limit, limit)
        if symmetric
        else (max(min(x.min(), 0), -limit), min(max(x.max(), 0), limit))
    )


# The methods: each gives (lo, hi)


def maximum(x, low, high, symmetric):
    x = without_masks(x)
    return within(x, np.abs(x).max(), symmetric)


def percentile(x, low, high, symmetric, percent=99.99):
    """The bin's edge above the exact percentile."""
    edges, x = bins(x), without_masks(x)
    a = np.sort(np.abs(x))
    rank = int(np.ceil(len(a) * percent / 100))
    if a[rank - 1] < edges[0]:
        a = a[a >= edges[0]]
        rank = int(np.ceil(len(a) * percent / 100))
    above = edges[np.searchsorted(edges, a[rank - 1], side="right")]
    return within(x, min(above, a[-1]), symmetric)


def divergence(x, lo, hi, levels, edges):
    """KL(P||Q) of the histogram of x, over `edges` (signed or of magnitudes), for a range in `levels` levels."""
    counts = np.histogram(x, edges)[0].astype(np.float64)
    widths, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    below = (middles < lo) & (lo > x.min())
    above = (middles >= hi) & (hi < x.max())
    starts = lo + np.arange(1, levels) * ((hi - lo) / levels)
    # A middle on the border of two levels belongs to the one nearer to zero.
    level = np.where(
        middles < 0,
        np.searchsorted(starts, middles, side="right"),
        np.searchsorted(starts, middles, side="left"),
    )
    kept = np.where(below | above, 0, counts)
    sums = np.bincount(level, kept, levels)
    used = np.bincount(level, np.where(kept > 0, widths, 0), levels)
    holding = np.flatnonzero(sums)
    if not holding.size:
        return np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(kept > 0, sums[level] * widths / used[level], 0)
        p = kept.copy()
        for where, outside in ((holding[0], below), (holding[-1], above)):
            p += np.where(level == where, kept / sums[where] * counts[outside].sum(), 0)
        p, q = p / p.sum(), q / q.sum()
        return float(np.sum(np.where(p > 0, p * np.log(p / q), 0)))


def entropy(x, low, high, symmetric):
    magnitudes, levels = bins(x), 128 if symmetric else high - low + 1
    tried, x = limits(x, levels), without_masks(x)
    x = x[np.abs(x) >= magnitudes[0]]
    # The zeros between two signed halves are left out of x.
    edges = magnitudes if symmetric else np.concatenate([-magnitudes[::-1], magnitudes])
    best = (np.inf, None)
    for limit in tried:
        lo, hi = within(x, limit, symmetric)
        kl = divergence(np.abs(x) if symmetric else x, 0.0 if symmetric else lo, hi, levels, edges)
        if kl < best[0] - 1e-10:
            best = (kl, (lo, hi))
    return best[1]


def quantization_error(x, lo, hi, low, high, symmetric):
    if symmetric:
        steps = high if low < 0 else (high - low) / 2
        scale, zero = hi / steps, 0 if low < 0 else (high + 1) // 2
    else:
        scale = (hi - lo) / (high - low)
        zero = np.rint(low - lo / scale)
    q = np.clip(np.rint(x / scale) + zero, low, high)
    return float(np.mean(((q - zero) * scale - x) ** 2))


def least_error(x, low, high, symmetric):
    """The least error of all the limits that are tried."""
    tried, x = limits(x, 128 if symmetric else high - low + 1), without_masks(x)
    return min(
        quantization_error(x, *within(x, limit, symmetric), low, high, symmetric) for limit in tried
    )
