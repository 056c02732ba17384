"""How much does the choice of ranges matter? Quantize with two methods and plot the difference.

usage: compare_methods.py MODEL CALIBRATION_DATA [PLOT.png [METHOD METHOD]]

The plot needs matplotlib; the numbers are printed anyway.
"""

# %% Two results of one model
import math
import sys

import onnxptq

model, data, *rest = sys.argv[1:]
plot = rest[0] if rest else "methods.png"
methods = rest[1:3] or ["max", "entropy"]

results = {
    method: onnxptq.quantize(model, calibration_data=data, method=method, target="onnxruntime")
    for method in methods
}

# %% The outputs beside the original's
for method, result in results.items():
    for name, decibels in result.sqnr.items():
        text = "not a float" if decibels is None else f"{decibels:.1f} dB"
        print(f"{method:10} {name}: {text}")

# %% Where they differ: the widths of the ranges, a point for each tensor
first, second = (results[method].ranges for method in methods)
common = [name for name in first if name in second]
ratios = {name: second[name].scale / first[name].scale for name in common}
narrowest = sorted(ratios, key=ratios.__getitem__)[:5]
for name in narrowest:
    print(f"{name}: {methods[1]} takes {100 * ratios[name]:.0f} % of the range of {methods[0]}")

# %% Plot
try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
except ImportError:
    sys.exit("no plot: matplotlib is not installed")

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
left.bar(
    methods,
    [
        min(v for v in r.sqnr.values() if v is not None and math.isfinite(v))
        for r in results.values()
    ],
)
left.set_ylabel("worst output, dB")
left.set_title("signal to noise")
right.plot(sorted(ratios.values()), ".")
right.axhline(1, linewidth=0.5)
right.set_xlabel("tensor")
right.set_ylabel(f"scale of {methods[1]} / {methods[0]}")
right.set_title("width of the ranges")
figure.tight_layout()
figure.savefig(plot)
print("plot:", plot)
