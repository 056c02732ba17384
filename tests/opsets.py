"""Converting models by the tool of the tests, and running what comes out beside the original."""

import functools
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import harness
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

TOOL = Path(harness.OPS).parent / "test-tools" / "opset_convert"
OLDEST, NEWEST = 7, 26
# Where the runtime computes the newer form in another order.
ROUNDING = {"rtol": 2e-6, "atol": 2e-7}

# ---- Running ------------------------------------------------------------------------------------


def run(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


@functools.cache
def newest_of_runtime():
    """The highest opset that this runtime takes."""
    x = np.zeros(1, np.float32)
    node = helper.make_node("Identity", ["x"], ["y"])
    for opset in range(NEWEST, OLDEST, -1):
        try:
            run(make_model([node], {"x": x}, ["y"], opset, ir_version=8), {"x": x})
            return opset
        except Exception:  # noqa: BLE001, S112 -- the next lower one
            continue
    raise AssertionError("the runtime takes no opset at all")


def convert(model, version, tmp_path, fails=False):
    """The model converted; with `fails`, the message, the model being as it was."""
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    before.write_bytes(model.SerializeToString())
    done = subprocess.run(
        [str(TOOL), str(before), str(after), str(version)], capture_output=True, text=True
    )
    if fails:
        assert done.returncode == 1, done
        assert onnx.load(after) == onnx.load(before)
        return done.stderr
    assert done.returncode == 0, done
    return onnx.load(after)


def default_opset(owner):
    return next(o.version for o in owner.opset_import if o.domain in ("", "ai.onnx"))


def assert_equal(before, after, rounding=None):
    assert len(before) == len(after)
    for a, b in zip(before, after, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if rounding:
            np.testing.assert_allclose(a, b, **rounding)
        elif a.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            assert a.tobytes() == b.tobytes(), f"\n{a}\n{b}"


def assert_converts(model, feeds, version, tmp_path, rounding=None, check=True):
    expected = run(model, feeds)
    for info, value in zip(model.graph.output, expected, strict=True):
        dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
        info.CopyFrom(helper.make_tensor_value_info(info.name, dtype, [None] * value.ndim))
    converted = convert(model, version, tmp_path)
    assert default_opset(converted) == version
    if check:
        onnx.checker.check_model(converted, full_check=True)
    try:
        assert_equal(expected, run(converted, feeds), rounding)
    except NotImplemented:
        # Of the newest versions, this runtime knows operators that it has no kernel for.
        assert version > 21
    return converted


# ---- Models -------------------------------------------------------------------------------------


def make_model(nodes, feeds, outputs, opset, initializers=None, ir_version=8, **extra):
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in feeds.items()
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        infos,
        [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)] + extra.pop("imports", [])
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **extra)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


@dataclass
class Case:
    """One node. Inputs are arrays: fed, or with `const` initializers; None is an omitted input."""

    op: str
    opset: int
    attributes: dict = field(default_factory=dict)
    inputs: tuple = ()
    const: tuple = ()  # indices of inputs that are initializers
    outputs: int = 1
    rounding_from: int = NEWEST + 1  # equal up to rounding from this target on
    valid_from: int = 0  # in targets below, the runtime takes it, the specification does not

    def parts(self):
        feeds, initializers, names = {}, {}, []
        for i, value in enumerate(self.inputs):
            names.append("" if value is None else f"x{i}")
            if value is not None:
                (initializers if i in self.const else feeds)[f"x{i}"] = np.asarray(value)
        outputs = [f"y{i}" for i in range(self.outputs)]
        return helper.make_node(self.op, names, outputs, **self.attributes), feeds, initializers

    def model(self):
        node, feeds, initializers = self.parts()
        return make_model([node], feeds, list(node.output), self.opset, initializers), feeds

    def __str__(self):
        text = " ".join(f"{k}={v}" for k, v in self.attributes.items())
        shapes = " ".join("-" if i is None else str(list(np.shape(i))) for i in self.inputs)
        return f"{self.op}-{self.opset} {text} {shapes}"


# ---- Where nodes lie ----------------------------------------------------------------------------


def typed(names, values):
    return [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), None)
        for n, v in zip(names, values, strict=True)
    ]


def place_in_if(case, depth=1):
    """The node in a branch, `depth` deep; the input and constants are captured from the graph."""
    node, feeds, initializers = case.parts()
    outputs = list(node.output)
    results = run(*case.model())
    nodes = [node]
    for level in range(depth):
        inner = [f"{o}_{level}" for o in outputs]
        for n in nodes:
            renamed = [inner[outputs.index(o)] if o in outputs else o for o in n.output]
            n.output[:] = renamed
        then = helper.make_graph(nodes, f"then_{level}", [], typed(inner, results))
        constants = [
            helper.make_node("Constant", [], [f"{o}_else"], value=numpy_helper.from_array(r))
            for o, r in zip(inner, results, strict=True)
        ]
        names = [f"{o}_else" for o in inner]
        other = helper.make_graph(constants, f"else_{level}", [], typed(names, results))
        nodes = [helper.make_node("If", ["yes"], outputs, then_branch=then, else_branch=other)]
    initializers["yes"] = np.array(True)
    return make_model(nodes, feeds, outputs, case.opset, initializers), feeds


def place_in_function(case, opset=None, **attributes):
    node, feeds, initializers = case.parts()
    inputs, outputs = [*feeds, *initializers], list(node.output)
    imports = [helper.make_opsetid("", opset or case.opset)]
    function = helper.make_function(
        "local", "Inner", inputs, outputs, [node], imports, list(attributes)
    )
    call = helper.make_node("Inner", inputs, outputs, domain="local", **attributes)
    return make_model(
        [call],
        feeds,
        outputs,
        case.opset,
        initializers,
        imports=[helper.make_opsetid("local", 1)],
        functions=[function],
    ), feeds


def scan_8(directions=None, lengths=False):
    """Running sums of a batch of sequences, and the sums so far."""
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("s", "e", "o", "t")]
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "e"], ["p"]),
            helper.make_node("Clip", ["p"], ["o"], max=2.0),
            helper.make_node("Mul", ["o", "factor"], ["t"]),
        ],
        "body",
        infos[:2],
        infos[2:],
    )
    attributes = {} if directions is None else {"directions": directions}
    inputs = ["lengths" if lengths else "", "state", "sequence"]
    node = helper.make_node("Scan", inputs, ["y", "z"], body=body, num_scan_inputs=1, **attributes)
    feeds = {"state": floats(2, 3), "sequence": floats(2, 4, 3, seed=1)}
    initializers = {"factor": f32(1, 2, 3), "lengths": ints(4, 2)}
    return make_model([node], feeds, ["y", "z"], 8, initializers), feeds
