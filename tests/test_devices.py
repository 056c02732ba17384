"""Providers of devices that no machine here has: the runtime is told what the user asked for, in
every session. A library stands between the tool and the runtime (ops/devices.c), claims to have
them, writes down what it is given, and leaves the work to the processor."""

import os

import harness
import models
import onnx
import pytest
import qdq

CUSTOM = "/block/custom"


class Devices:
    """The runtime with devices, and what it wrote down."""

    def __init__(self, bench, real):
        self.bench = bench
        self.real = real
        self.library = harness.library("devices")

    def quantize(self, case, providers, *args, broken="", **options):
        self.log = self.bench.folder / f"log{len(list(self.bench.folder.iterdir()))}"
        self.log.mkdir()
        env = {
            "REAL_RUNTIME": str(self.real),
            "DEVICES_LOG": str(self.log),
            "DEVICES_BROKEN": broken,
        }
        return self.bench.quantize(
            case, "--ort-lib", self.library, "--providers", providers, *args, env=env, **options
        )

    @property
    def sessions(self):
        """(model, providers) of each session of a whole model; a provider is [name, "key=value",
        ...]. Questions about one operator are none of them, nor are constants."""
        found = []
        for path in sorted(self.log.glob("*.onnx"), key=lambda p: int(p.stem.split("-")[1])):
            model = onnx.load_from_string(path.read_bytes())
            if any(node.name == CUSTOM for node in model.graph.node):
                lines = path.with_suffix(".txt").read_text().splitlines()
                found.append((model, [line.split("\t") for line in lines]))
        return found


@pytest.fixture
def devices(bench):
    given = os.environ.get("ONNXPTQ_ORT_LIB")
    found = sorted(
        (harness.ROOT / ".deps").glob("onnxruntime-[0-9]*/libonnxruntime.so.*"),
        key=lambda path: [int(number) for number in path.parent.name.split("-")[1].split(".")],
    )
    assert given or found, "no runtime: run `make`, or set ONNXPTQ_ORT_LIB"
    return Devices(bench, given or found[-1])


def any_batch(case):
    for value in (*case.model.graph.input, *case.model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    return case


def domains(model):
    return {node.domain for node in model.graph.node}


def observers(model):
    """How many whole tensors are read by observers, and how many are reduced in the graph."""
    types = [n.op_type for n in model.graph.node if n.domain == "onnxptq"]
    return types.count("Observe"), types.count("ObserveReduced")


# What the runtime is told


@pytest.mark.runtime
def test_order_and_options_reach_every_session(devices):
    run = devices.quantize(
        models.motivating(), "trt:1,cuda:1", "--provider-option", "cuda:arena_extend_strategy=k",
        "--provider-option", "trt:trt_fp16_enable=0",
    ).ok()  # fmt: skip
    expected = [["TensorRT", "device_id=1", "trt_fp16_enable=0"],
                ["CUDA", "device_id=1", "arena_extend_strategy=k"]]  # fmt: skip
    assert len(devices.sessions) >= 4  # trace, calibration, check of the original and of the result
    for _, providers in devices.sessions:
        assert providers == expected
    assert [p["name"] for p in run.json["providers"]] == [
        "TensorrtExecutionProvider", "CUDAExecutionProvider"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "providers, expected",
    [
        ("cuda", [["CUDA"]]),
        ("cuda:2", [["CUDA", "device_id=2"]]),
        ("CUDAExecutionProvider:device_id=3;use_tf32=0", [["CUDA", "device_id=3", "use_tf32=0"]]),
        ("dml:1", [["DML", "device_id=1"]]),
        ("DmlExecutionProvider", [["DML"]]),
        ("tensorrt,cuda", [["TensorRT"], ["CUDA"]]),
        ("cuda:1,CUDAExecutionProvider:device_id=1", [["CUDA", "device_id=1"]]),
        ("cuda,cpu", [["CUDA"]]),
        ("cpu,cuda", [["CPU"], ["CUDA"]]),
        ("cpu", []),
    ],
)
def test_names_of_providers(devices, providers, expected):
    devices.quantize(models.motivating(), providers).ok()
    assert devices.sessions
    for _, given in devices.sessions:
        assert given == expected


def test_plugins_and_profiles_of_tensorrt(devices, bench, monkeypatch):
    """Paths are absolute: the provider would look a bare name up elsewhere."""
    monkeypatch.chdir(harness.OPS)
    case = any_batch(models.motivating())
    profiles = [
        word
        for name, rows in (("min", 1), ("opt", 4), ("max", 8))
        for word in (f"--trt-profile-{name}", f"X:{rows}x3x8x8")
    ]
    devices.quantize(
        case, "trt", "--trt-plugin", "libmixed.so", "--trt-plugin", "libother.so", *profiles
    ).ok()
    plugins = f"{harness.OPS}/libmixed.so;{harness.OPS}/libother.so"
    for _, providers in devices.sessions:
        assert providers == [
            ["TensorRT", f"trt_extra_plugin_lib_paths={plugins}", "trt_profile_min_shapes=X:1x3x8x8",
             "trt_profile_opt_shapes=X:4x3x8x8", "trt_profile_max_shapes=X:8x3x8x8"]
        ]  # fmt: skip


@pytest.mark.parametrize(
    "shape, words", [("Nope:1x3", ("'Nope'", "no such input", "'X'")),
                     ("X:1x3x8", ("'X'", "(1, 3, 8)", "--trt-profile-min")),
                     ("X:1x3x9x8", ("'X'", "(1, 3, 9, 8)", "--trt-profile-min"))],
)  # fmt: skip
def test_profiles_must_be_of_the_model(devices, bench, shape, words):
    options = [w for name in ("min", "opt", "max") for w in (f"--trt-profile-{name}", shape)]
    run = devices.quantize(any_batch(models.motivating()), "trt", *options)
    run.failed(*words, code=2)
    assert harness.files_in(bench.out) == [] and not devices.sessions


@pytest.mark.parametrize(
    "providers", ["trt,trt:1", "cuda:1,CUDAExecutionProvider", "cuda:0,cpu,cuda:1"]
)
def test_a_provider_named_twice(devices, bench, providers):
    devices.quantize(models.motivating(), providers).failed("together", "ExecutionProvider", code=2)
    assert harness.files_in(bench.out) == []


def test_constants_are_computed_on_the_processor(devices):
    """Sessions of our own, beside the user's model, need no device."""
    case = models.FOREIGN["shared_constants"]()
    devices.quantize(case, "cuda").ok()
    small = [p.with_suffix(".txt").read_text() for p in devices.log.glob("*.onnx")]
    assert small.count("") > 0 and len(small) > small.count("")


# A provider that is missing, or does not come


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "trt:0", "dml", "qnn"])
def test_a_provider_that_the_runtime_lacks(bench, name):
    run = bench.quantize(models.motivating(), "--providers", name)
    run.failed(f"execution provider '{name}'", "does not have it", "CPUExecutionProvider")
    assert harness.files_in(bench.out) == []


@pytest.mark.parametrize(
    "name, broken", [("cuda:1", "CUDA"), ("trt:1", "TensorRT"), ("dml:1", "DML")]
)
def test_a_provider_whose_own_libraries_are_missing(devices, bench, name, broken):
    run = devices.quantize(models.motivating(), name, broken=broken)
    run.failed(f"execution provider '{name}'", "libdevice.so.9", "device_id=1", "its own libraries")
    assert harness.files_in(bench.out) == []


# What the session's copy holds


@pytest.mark.runtime
def test_an_operator_that_only_a_plugin_has(devices, target):
    """It is called by the domain that the provider registers plugins in, in the copies alone."""
    case = models.motivating()
    plugin = harness.library("trtplugins")
    run = devices.quantize(case, "trt,cuda", "--trt-plugin", plugin, target=target, libs=[]).ok()
    assert len(devices.sessions) >= 4
    for model, _ in devices.sessions:
        assert "trt.plugins" in domains(model) and "custom_domain" not in domains(model)
        assert [(o.domain, o.version) for o in model.opset_import if o.domain == "trt.plugins"] == [
            ("trt.plugins", 1)
        ]
    assert domains(run.model) == {"", "custom_domain"}
    assert {o.domain for o in run.model.opset_import} == {"", "custom_domain"}
    assert any("trt.plugins::DummyOp" in note for note in run.json["notes"])
    qdq.assert_rest_unchanged(case.model, run.model)
    assert run.json["check"]["outputs"][0]["sqnr_db"] > 30


def test_an_operator_that_a_library_has_is_no_plugin(devices):
    """Even where a plugin of that name is there too: what the library made runs as it is."""
    plugin = harness.library("trtplugins")
    run = devices.quantize(models.motivating(), "trt", "--trt-plugin", plugin).ok()
    for model, _ in devices.sessions:
        assert "trt.plugins" not in domains(model)
    assert not any("trt.plugins" in note for note in run.json["notes"])


def test_an_operator_that_not_even_a_plugin_has(devices, bench):
    g = models.Graph(custom_domain=1)
    x = g.node("Missing", [g.input("X", [1, 3, 8, 8])], "m", CUSTOM, "custom_domain")
    g.conv(x, "Y", 3, 8, name="conv")
    g.output("Y", [1, 8, 8, 8])
    case = models.Case(g.build(), {"X": models.noise(2, 3, 8, 8)})
    run = devices.quantize(case, "trt", "--trt-plugin", harness.library("trtplugins"))
    run.failed("custom_domain::Missing", CUSTOM)
    assert harness.files_in(bench.out) == [] and not devices.sessions


def test_shapes_behind_a_custom_operator_are_told(devices):
    """Nobody can infer them: after the first sample the rank is known, after all of them that the
    dimensions do not change."""
    run = devices.quantize(models.motivating(), "trt").ok()
    told = []
    for model, _ in devices.sessions:
        infos = {v.name: v.type.tensor_type.shape for v in model.graph.value_info}
        told.append([d.dim_value for d in infos["d"].dim] if "d" in infos else None)
    assert told[:2] == [None, [0, 0, 0, 0]] and len(told) >= 4
    assert told[2:] == [[1, 32, 8, 8]] * (len(told) - 2)
    declared = {v.name: v.type.tensor_type.shape for v in run.model.graph.value_info}["d"]
    assert [d.dim_value for d in declared.dim] == [1, 32, 8, 8]


def test_ranks_are_told_wherever_a_tensor_was_seen(devices):
    """Shape inference gives up behind shapes that are computed, not only behind custom operators;
    the processor needs none of it."""
    declared = {}
    for providers in ("cuda", "cpu"):
        devices.quantize(models.motivating(), providers, out=f"{providers}.onnx").ok()
        model, _ = devices.sessions[1]
        declared[providers] = {
            v.name: len(v.type.tensor_type.shape.dim) for v in model.graph.value_info
        }
    assert declared["cuda"] == {"c1": 4, "r1": 4, "d": 4, "c2": 4}
    assert declared["cpu"] == {"d": 4}


@pytest.mark.runtime
@pytest.mark.parametrize("providers", ["cuda", "trt,cuda", "dml"])
def test_max_is_reduced_on_the_device(devices, bench, target, providers):
    """By standard operators: no session reads a watched tensor on the host. The same comes out."""
    case = models.motivating()
    run = devices.quantize(case, providers, "--method", "max", target=target, out="device.onnx")
    calibration = [observers(model) for model, _ in devices.sessions if observers(model)[1]]
    assert calibration and all(read == 0 for read, _ in calibration), calibration
    host = bench.quantize(case, "--method", "max", target=target, out="host.onnx").ok()
    assert run.ok().path.read_bytes() == host.path.read_bytes()


@pytest.mark.parametrize("args", [("--observe", "host", "--method", "max"), ("--method", "mse")])
def test_other_ways_read_tensors_on_the_host(devices, args):
    devices.quantize(models.motivating(), "cuda", *args).ok()
    assert sum(observers(model)[1] for model, _ in devices.sessions[1:]) == 0
    assert sum(observers(model)[0] for model, _ in devices.sessions[1:]) > 0


def test_no_marks_between_nodes_of_a_device(devices):
    """They would come between the nodes of an engine; on the processor they are there."""
    devices.quantize(models.motivating(), "cuda").ok()
    assert not any(n.op_type == "Mark" for model, _ in devices.sessions for n in model.graph.node)
    devices.quantize(models.motivating(), "cpu", out="cpu.onnx").ok()
    assert any(n.op_type == "Mark" for model, _ in devices.sessions for n in model.graph.node)
