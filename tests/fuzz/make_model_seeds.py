"""Makes the seeds of fuzz_model: tiny models that hold one kind of thing each.

usage: python tests/fuzz/make_model_seeds.py      (rewrites tests/fuzz/seeds/fuzz_model)
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "seeds" / "fuzz_model"


def array(name: str, *shape: int) -> TensorProto:
    """A float tensor; from 32 elements on its data stays in the file."""
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def info(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(nodes, initializers=(), outputs=("y",), **more) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "g", [info("x", 4)], [info(name, 4) for name in outputs], list(initializers)
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], **more)


def body(name: str, output: str) -> onnx.GraphProto:
    nodes = [
        helper.make_node("Constant", [], ["c" + output], value=array("", 4, 8)),
        helper.make_node("Add", ["x", "c" + output], [output]),
    ]
    return helper.make_graph(nodes, name, [], [info(output, 4)], [array("w", 2)])


def seeds():
    yield "conv", model([helper.make_node("Conv", ["x", "w"], ["y"])], [array("w", 2, 4, 4)])
    yield (
        "if",
        model(
            [
                helper.make_node(
                    "If", ["x"], ["y"], then_branch=body("t", "a"), else_branch=body("e", "b")
                )
            ]
        ),
    )
    yield (
        "constants",
        model(
            [
                helper.make_node("Constant", [], ["a"], value_floats=[1.0, 2.0]),
                helper.make_node("Constant", [], ["b"], value_int=3),
                helper.make_node("Identity", ["a"], ["y"]),
            ]
        ),
    )
    function = helper.make_function(
        "local",
        "F",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["c"], value=array("", 32)),
            helper.make_node("Mul", ["a", "c"], ["b"]),
        ],
        [helper.make_opsetid("", 17)],
    )
    yield (
        "function",
        model([helper.make_node("F", ["x"], ["y"], domain="local")], functions=[function]),
    )
    yield (
        "typed",
        model(
            [helper.make_node("Identity", ["x"], ["y"])],
            [
                helper.make_tensor("i8", TensorProto.INT8, [2], [1, -1]),
                helper.make_tensor("i4", TensorProto.INT4, [3], [1, -1, 2]),
                helper.make_tensor("f16", TensorProto.FLOAT16, [1], [0.5]),
                helper.make_tensor("u32", TensorProto.UINT32, [1], [7]),
                helper.make_tensor("s", TensorProto.STRING, [1], [b"text"]),
                helper.make_tensor("d", TensorProto.DOUBLE, [1], [0.5]),
            ],
        ),
    )
    sparse = model([helper.make_node("Custom", ["x", "s"], ["y"], domain="my", t=array("", 32))])
    sparse.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            array("s", 32), numpy_helper.from_array(np.arange(32, dtype=np.int64)), [64]
        )
    )
    yield "sparse", sparse
    external = model([helper.make_node("Add", ["x", "w"], ["y"])])
    tensor = external.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=1)
    for key, value in (("location", "w.bin"), ("offset", "16"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    yield "external", external
    yield (
        "cycle",
        model(
            [
                helper.make_node("Add", ["x", "b"], ["a"]),
                helper.make_node("Neg", ["a"], ["b"]),
                helper.make_node("Neg", ["b"], ["y"]),
            ]
        ),
    )
    rest = model([helper.make_node("Identity", ["x"], ["y"])])
    rest.training_info.add().algorithm.CopyFrom(body("train", "z"))
    rest.metadata_props.add(key="k", value="v")
    rest.graph.quantization_annotation.add(tensor_name="x")
    rest.graph.value_info.append(
        helper.make_value_info(
            "q", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["n", 2]))
        )
    )
    yield "rest", rest


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, seed in seeds():
        seed.ir_version = 10
        (FOLDER / f"{name}.onnx").write_bytes(seed.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
