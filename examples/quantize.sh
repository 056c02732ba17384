#!/bin/sh
# The command, from a model with custom operators to the numbers a script wants.
#
# usage: examples/quantize.sh MODEL OUT CALIBRATION_DATA CUSTOM_OP_LIBRARY
set -eu
model=$1 out=$2 data=$3 library=$4
onnxptq=${ONNXPTQ_CLI:-onnxptq}

# What is in it, and can it be run here?
"$onnxptq" inspect "$model" --custom-op-lib "$library"

# Quantize for TensorRT; the summary ends with how to run the result.
"$onnxptq" quantize "$model" -o "$out" --data "$data" --custom-op-lib "$library" --force

# The same for a script: one JSON object, and an exit code.
"$onnxptq" quantize "$model" -o "$out" --data "$data" --custom-op-lib "$library" --force --json |
    python3 -c '
import json, sys
report = json.load(sys.stdin)
for output in report["check"]["outputs"]:
    db = output["sqnr_db"]
    print(output["name"], "equal" if output["exact"] else db if db is None else f"{db:.1f} dB")
'
