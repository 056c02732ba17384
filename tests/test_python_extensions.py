"""A published library of custom operators, around a published network: Silero's detector of speech, a
convolutional net, behind the audio decoder of onnxruntime-extensions, fed with the bytes of files."""

import io
import wave

import harness
import numpy as np
import onnx
import onnxptq
import onnxruntime as ort
import onnxruntime_extensions as extensions
import pytest
import zoo
from onnx import TensorProto, helper, numpy_helper

MODEL = zoo.FOLDER / "silero_vad_16k_sequence.onnx"
LIBRARY = extensions.get_library_path()
FRAME, RATE = 576, 16000
pytestmark = pytest.mark.skipif(not MODEL.exists(), reason="needs `tools/setup test`")


def whole():
    """The network with the decoder inside. It starts from silence, as for every new file."""
    model = onnx.load(MODEL)
    graph = model.graph
    node = helper.make_node
    domain = {"domain": "ai.onnx.contrib", "target_sample_rate": RATE}
    nodes = [
        node("AudioDecoder", ["file"], ["audio"], "decode", **domain),
        node("Reshape", ["audio", "frames"], ["input"], "cut"),
        *graph.node,
    ]
    silence = np.zeros((1, 1, 128), np.float32)
    constants = {"h": silence, "c": silence, "frames": np.array([-1, FRAME])}
    del graph.node[:], graph.input[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(v, name) for name, v in constants.items())
    graph.input.append(helper.make_tensor_value_info("file", TensorProto.UINT8, [1, "bytes"]))
    model.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
    return model


def files(count, seed):
    """WAV files, each of a length of its own."""
    for i, audio in enumerate(zoo.voice_run(count, seed)["input"]):
        samples = (np.clip(audio.reshape(-1), -1, 1) * 32767).astype("<i2")
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(samples[: FRAME * (len(samples) // FRAME - i % 3)].tobytes())
        yield {"file": np.frombuffer(buffer.getvalue(), np.uint8)[None]}


def run(model, samples):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.register_custom_ops_library(LIBRARY)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [session.run(["speech_probs"], sample)[0] for sample in samples]


def decoded(samples):
    """What the decoder makes of them, for the network alone."""
    for sample in samples:
        with wave.open(io.BytesIO(sample["file"].tobytes())) as file:
            audio = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        silence = np.zeros((1, 1, 128), np.float32)
        input = (audio / 32768).astype(np.float32).reshape(-1, FRAME)
        yield {"input": input, "h": silence, "c": silence}


@pytest.mark.parametrize("target", harness.TARGETS)
def test_from_a_file_to_speech(target):
    model = whole()
    options = {
        "target": target,
        "size_rules": False,
        "method": "max",
        "allow_low_quality": True,
        "repair": False,
    }
    result = onnxptq.quantize(model, None, files(24, 1), custom_op_libs=[LIBRARY], **options)
    (decode,) = (d for d in result.plan if d.op == "ai.onnx.contrib::AudioDecoder")
    assert decode.decision == "foreign"
    assert [n for n in result.model.graph.node if n.name == "decode"] == [model.graph.node[0]]
    assert result.summary["quantized"]["Conv"] >= 5
    # As the network is quantized by itself, on what the decoder makes.
    alone = onnxptq.quantize(MODEL, None, decoded(files(24, 1)), **options)
    assert result.ranges == alone.ranges
    assert result.sqnr["speech_probs"] == pytest.approx(alone.sqnr["speech_probs"], abs=0.1)
    # And it runs, as well as it did when it was measured.
    samples = list(files(8, 2))
    got = run(result.to_bytes(), samples)
    reference = run(model.SerializeToString(), samples)
    assert harness.sqnr_db(reference, got) > result.sqnr["speech_probs"] - 4


def test_without_the_library_its_operators_are_missing():
    with pytest.raises(onnxptq.Error) as caught:
        onnxptq.quantize(whole(), None, files(4, 1))
    assert caught.value.code == "missing operator" and caught.value.node == "decode"
