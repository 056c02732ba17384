"""Images as calibration data: every step beside Pillow and numpy, and broken files."""

import io
import struct
import subprocess
import zlib
from pathlib import Path

import harness
import models
import numpy as np
import onnx
import pytest
from PIL import Image

TOOL = Path(harness.OPS).parent / "test-tools" / "read_images"
IMAGENET = "mean=0.485:0.456:0.406,std=0.229:0.224:0.225"


def picture(height=61, width=83, seed=0):
    """Smooth areas, edges and noise."""
    r = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(x / 7 + seed), np.cos(y / 5), np.sin((x + y) / 11)], axis=-1)
    image = 120 + 90 * waves + 20 * r.standard_normal((height, width, 3))
    image[height // 3 : height // 2, width // 4 :] = (250, 3, 120)
    return Image.fromarray(image.clip(0, 255).astype(np.uint8))


def save(folder, name, image, **options):
    folder.mkdir(exist_ok=True)
    image.save(folder / name, **options)
    return folder / name


def feed(folder, spec, shape="-1,3,-1,-1", dtype=np.float32, batch=0):
    """The arrays of all runs."""
    out = folder.parent / "out.raw"
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    words = [TOOL, folder, spec, number, shape, batch, out]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    data, runs = out.read_bytes(), []
    for line in done.stdout.splitlines():
        dims = tuple(map(int, line.split(",")))
        size = int(np.prod(dims)) * np.dtype(dtype).itemsize
        runs.append(np.frombuffer(data[:size], dtype).reshape(dims))
        data = data[size:]
    assert not data
    return runs


def bytes_of(folder, spec="range=0:255", **more):
    """The pixels of the only image, height x width x channel."""
    (run,) = feed(folder, f"layout=nchw,{spec}", dtype=np.uint8, **more)
    return run[0].transpose(1, 2, 0)


# Decoding


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1", "LA", "RGBA", "RGB interlaced", "tRNS"])
def test_png(tmp_path, mode):
    image = picture()
    if mode in ("LA", "RGBA"):
        image = image.convert(mode)
        image.putalpha(
            Image.fromarray(np.arange(61 * 83, dtype=np.uint32).reshape(61, 83).astype(np.uint8))
        )
    elif mode == "tRNS":
        image = image.convert("P")
        image.info["transparency"] = 3
    elif mode != "RGB interlaced":
        image = image.convert(mode)
    path = save(tmp_path / "i", "a.png", image)
    if mode == "RGB interlaced":
        path.write_bytes(interlaced(np.asarray(image)))
    want = np.asarray(Image.open(path).convert("RGB"))
    np.testing.assert_array_equal(bytes_of(tmp_path / "i"), want)


def chunk(kind, payload):
    return (
        struct.pack(">I", len(payload))
        + kind
        + payload
        + struct.pack(">I", zlib.crc32(kind + payload))
    )


def png(width, height, payload, bits=8, kind=2, interlace=0):
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlace)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(payload))
        + chunk(b"IEND", b"")
    )


def interlaced(pixels):
    """Adam7, which Pillow reads but does not write."""
    rows = b""
    passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ]
    for x, y, dx, dy in passes:
        rows += b"".join(b"\0" + row.tobytes() for row in pixels[y::dy, x::dx])
    return png(pixels.shape[1], pixels.shape[0], rows, interlace=1)


def test_png_of_16_bits(tmp_path):
    """The upper eight are taken."""
    pixels = np.random.default_rng(0).integers(0, 1 << 16, (5, 7, 3), np.uint16)
    payload = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    (tmp_path / "i").mkdir()
    (tmp_path / "i" / "a.png").write_bytes(png(7, 5, payload, bits=16))
    np.testing.assert_array_equal(bytes_of(tmp_path / "i"), pixels >> 8)


@pytest.mark.parametrize(
    "options", [{}, {"quality": 95, "subsampling": 0}, {"progressive": True}, {"subsampling": 1}]
)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_jpeg(tmp_path, mode, options):
    """Decoders may differ by a level where they round the transform; most pixels are equal."""
    path = save(tmp_path / "i", "a.JPEG", picture().convert(mode), **options)
    want = np.asarray(Image.open(path).convert("RGB")).astype(int)
    got = bytes_of(tmp_path / "i").astype(int)
    assert np.abs(got - want).max() <= 2 and (got == want).mean() > 0.99


def test_content_tells_the_kind(tmp_path):
    path = save(tmp_path / "i", "a.jpg", picture(), format="PNG")
    np.testing.assert_array_equal(bytes_of(tmp_path / "i"), np.asarray(Image.open(path)))


# Sizes


def pillow(image, width, height):
    """Columns first: some versions of Pillow begin with the rows where that is less work, and round in between."""
    columns = image.resize((width, image.height), Image.Resampling.BILINEAR)
    return columns.resize((width, height), Image.Resampling.BILINEAR)


@pytest.mark.parametrize(
    "height, width", [(20, 30), (61, 83), (122, 166), (61, 40), (7, 83), (200, 9), (1, 1), (60, 84)]
)
def test_resize_is_that_of_pillow(tmp_path, height, width):
    image = picture()
    save(tmp_path / "i", "a.png", image)
    got = bytes_of(tmp_path / "i", f"range=0:255,resize={height}x{width}")
    np.testing.assert_array_equal(got, np.asarray(pillow(image, width, height)))
    at_once = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
    assert np.abs(got.astype(int) - at_once).max() <= 1


def bilinear(image, height, width):
    """The four pixels around each centre."""

    def axis(x, n):
        size = x.shape[0]
        centre = (np.arange(n) + 0.5) * size / n - 0.5
        low = np.floor(centre).astype(int)
        share = (centre - low)[:, None, None]
        edge = lambda i: x[np.clip(i, 0, size - 1)]  # noqa: E731
        return edge(low) * (1 - share) + edge(low + 1) * share

    x = axis(np.asarray(image, np.float64).transpose(1, 0, 2), width).transpose(1, 0, 2)
    return axis(x, height)


@pytest.mark.parametrize("height, width", [(20, 30), (122, 166), (61, 40), (7, 200)])
def test_resize_without_antialiasing(tmp_path, height, width):
    image = picture()
    save(tmp_path / "i", "a.png", image)
    got = bytes_of(tmp_path / "i", f"range=0:255,resize={height}x{width},antialias=off")
    assert np.abs(got - bilinear(image, height, width)).max() <= 1.01


@pytest.mark.parametrize("height, width", [(61, 83), (83, 61), (50, 50), (33, 100)])
def test_shorter_side_and_crop_are_those_of_torchvision(tmp_path, height, width):
    """Resize(32): int(32 * long / short) for the longer one; CenterCrop(29): round((size - 29) / 2)."""
    image = picture(height, width)
    save(tmp_path / "i", "a.png", image)
    short, long = min(height, width), max(height, width)
    other = int(32 * long / short)
    resized = pillow(image, *((32, other) if width <= height else (other, 32)))
    left, top = (int(round((n - 29) / 2.0)) for n in resized.size)
    want = np.asarray(resized)[top : top + 29, left : left + 29]
    np.testing.assert_array_equal(bytes_of(tmp_path / "i", "range=0:255,resize=32,crop=29"), want)


def test_crop_of_two_sides(tmp_path):
    save(tmp_path / "i", "a.png", picture())
    want = np.asarray(picture())[20 : 20 + 20, 26 : 26 + 30]
    np.testing.assert_array_equal(bytes_of(tmp_path / "i", "range=0:255,crop=20x30"), want)


# Values


def test_the_preset_of_imagenet(tmp_path):
    image = picture(300, 400)
    save(tmp_path / "i", "a.png", image)
    resized = np.asarray(pillow(image, 341, 256), np.float32)
    x = resized[16 : 16 + 224, 58 : 58 + 224] / np.float32(255)
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    want = ((x - mean) / std).transpose(2, 0, 1)[None]
    (got,) = feed(tmp_path / "i", "imagenet", "1,3,224,224")
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("low, high", [(0, 1), (-1, 1), (0, 255)])
def test_ranges_and_types(tmp_path, dtype, low, high):
    save(tmp_path / "i", "a.png", picture())
    x = np.asarray(picture(), np.float64) / 255 * (high - low) + low
    want = ((x - 0.25) / 2).transpose(2, 0, 1)[None]
    (got,) = feed(tmp_path / "i", f"range={low}:{high},mean=0.25,std=2", dtype=dtype)
    np.testing.assert_allclose(got, want.astype(dtype), rtol=4 * np.finfo(dtype).eps, atol=1e-7)


def test_channels_and_layout(tmp_path):
    save(tmp_path / "i", "a.png", picture())
    image = picture()
    rgb = np.asarray(image)
    (got,) = feed(tmp_path / "i", "range=0:255,channels=bgr,mean=1:2:3", "-1,-1,-1,3")
    np.testing.assert_array_equal(got[0], rgb[:, :, ::-1] - np.float32([1, 2, 3]))
    (got,) = feed(tmp_path / "i", "range=0:255,channels=gray", "-1,1,-1,-1")
    np.testing.assert_array_equal(got[0, 0], np.asarray(image.convert("L")))
    (got,) = feed(tmp_path / "i", "range=0:255,layout=nhwc", "61,83,3")
    np.testing.assert_array_equal(got, rgb)
    (got,) = feed(tmp_path / "i", "range=0:255", "3,61,83")
    np.testing.assert_array_equal(got, rgb.transpose(2, 0, 1))


def test_images_are_joined(tmp_path):
    for i in range(5):
        save(tmp_path / "i", f"{i}.png", picture(30 + i, 40, seed=i))
    runs = feed(tmp_path / "i", "crop=20", batch=2)
    assert [r.shape[0] for r in runs] == [2, 2, 1]
    apart = feed(tmp_path / "i", "crop=20")
    np.testing.assert_array_equal(np.concatenate(runs), np.concatenate(apart))
    assert [r.shape for r in feed(tmp_path / "i", "resize=none")] == [
        (1, 3, 30 + i, 40) for i in range(5)
    ]


# The command


def case(shape=("B", 3, 16, 16)):
    g = models.Graph()
    g.conv(g.input("X", list(shape)), "Y", 3, 4, name="conv")
    g.output("Y", ["B", 4, "H", "W"])
    return models.Case(g.build(), {})


def quantize(bench, spec, *args, model=None, **more):
    words = ["--images", bench.inside / "i", *(["--preprocess", spec] if spec else [])]
    return bench.quantize(model or case(), *words, *args, data=False, timeout=30, **more)


@pytest.mark.parametrize("method", ["max", "percentile", "entropy", "mse", "auto"])
def test_images_give_the_ranges_of_the_same_arrays(bench, target, method):
    for i in range(4):
        save(bench.inside / "i", f"{i}.png", picture(20 + i, 18 + 2 * i, seed=i))
    spec = f"resize=20,crop=16,{IMAGENET}"
    arrays = np.concatenate(feed(bench.inside / "i", spec, "-1,3,16,16"))
    got = quantize(bench, spec, "--method", method, target=target).ok()
    want = bench.quantize(case(), "--method", method, target=target, out="w.onnx",
                          data=bench.write_data({"X": arrays})).ok()  # fmt: skip
    assert got.json["tensors"] == want.json["tensors"] and got.json["calibration_samples"] == 4


@pytest.mark.parametrize("method", ["max", "percentile", "entropy", "mse", "auto"])
def test_images_of_many_sizes(bench, target, method):
    for i in range(4):
        save(bench.inside / "i", f"{i}.png", picture(20 + i, 18 + 2 * i, seed=i))
    run = quantize(
        bench, IMAGENET, "--method", method, model=case(("B", 3, "H", "W")), target=target
    ).ok()
    assert run.json["calibration_samples"] == 4
    assert {"X"} <= {t["name"] for t in run.json["tensors"]}


def test_an_image_that_the_model_does_not_take(bench):
    """It is found when the model runs, and the message names the file."""
    g = models.Graph()
    c = g.conv(g.input("X", ["B", 3, "H", "W"]), "c", 3, 4, name="conv")
    shape = g.const("shape", np.array([1, 4 * 256], np.int64))
    g.node("Reshape", [c, shape], "Y")
    g.output("Y", [1, 4 * 256])
    save(bench.inside / "i", "good.png", picture(16, 16))
    save(bench.inside / "i", "wrong.png", picture(16, 17))
    run = quantize(bench, IMAGENET, "--method", "max", model=models.Case(g.build(), {}))
    run.failed("calibrate with sample 1 ('wrong.png')", "Reshape")


def refuse(bench, spec, *words, code=1, model=None, args=()):
    quantize(bench, spec, *args, model=model).failed(*words, code=code)
    assert harness.files_in(bench.out) == []


def test_images_need_to_be_told_how(bench):
    save(bench.inside / "i", "a.png", picture())
    refuse(bench, None, "--preprocess", "imagenet", code=2)


@pytest.mark.parametrize(
    "spec, words",
    [
        ("resize=256,,crop=2", ["''", "resize=", "imagenet"]),
        ("size=256", ["size=256", "resize="]),
        ("resize=0", ["resize=0", "shorter side"]),
        ("resize=16x", ["resize=16x"]),
        ("resize=9999999999", ["resize=9999999999"]),
        ("crop=-3", ["crop=-3"]),
        ("mean=0.1:0.2", ["mean=0.1:0.2", "three"]),
        ("mean=a", ["mean=a"]),
        ("mean=1:2:3:4", ["mean=1:2:3:4"]),
        ("std=0", ["std=0", "above 0"]),
        ("range=1:0", ["range=1:0", "lower first"]),
        ("layout=chw", ["layout=chw", "nchw or nhwc"]),
        ("channels=hsv", ["channels=hsv"]),
        ("antialias=yes", ["on or off"]),
        ("channels=gray,mean=1:2:3", ["one channel"]),
    ],
)
def test_a_wrong_preprocess(bench, spec, words):
    save(bench.inside / "i", "a.png", picture())
    refuse(bench, spec, "--preprocess", *words, code=2)


def test_images_and_models_that_do_not_fit(bench):
    save(bench.inside / "i", "a.png", picture(32, 32))
    save(bench.inside / "i", "b.png", picture(61, 83))
    refuse(bench, "crop=40", "a.png", "40 x 40", "32 x 32")
    refuse(bench, "resize=32", "a.png", "'X' takes float (?, 3, 16, 16)", "(1, 3, 32, 32)")
    refuse(bench, "crop=16,layout=nhwc", "a.png", "(1, 16, 16, 3)")
    refuse(bench, "crop=16,channels=gray", "'X'", "layout=", code=2)
    refuse(bench, "resize=16", "b.png", "(1, 3, 16, 21)")
    any_size = case(("B", 3, "H", "W"))
    refuse(
        bench,
        "resize=16",
        "b.png",
        "(3, 16, 21)",
        "(3, 16, 16)",
        model=any_size,
        args=["--batch", "2"],
    )
    refuse(
        bench,
        "crop=16",
        "2 images at once",
        "exactly 1",
        model=case((1, 3, 16, 16)),
        args=["--batch", "2"],
        code=2,
    )
    refuse(bench, "crop=16", "layout=nchw", model=case(("B", "C", "H", "W")), code=2)
    uint8 = models.Graph()
    x = uint8.node(
        "Cast", [uint8.input("X", ["B", 3, 16, 16], onnx.TensorProto.UINT8)], "c", to=models.FLOAT
    )
    uint8.conv(x, "Y", 3, 4, name="conv")
    uint8.output("Y", ["B", 4, 16, 16])
    uint8 = models.Case(uint8.build(), {})
    refuse(bench, "crop=16", "uint8", "range=0:255", model=uint8, code=2)
    quantize(bench, "crop=16,range=0:255", model=uint8).ok()


def test_a_model_that_takes_no_images(bench):
    save(bench.inside / "i", "a.png", picture(32, 32))
    g = models.Graph()
    g.matmul(g.input("X", ["B", 8]), "Y", 8, 8, "mm")
    g.output("Y", ["B", 8])
    refuse(
        bench,
        "crop=16",
        "'X'",
        "float (?, 8)",
        "3 or 4 dimensions",
        model=models.Case(g.build(), {}),
    )


def test_folders_without_images(bench):
    (bench.inside / "i").mkdir()
    refuse(bench, "crop=16", "no .png, .jpg or .jpeg")
    (bench.inside / "i").rmdir()
    refuse(bench, "crop=16", "no such folder")


def test_preprocess_without_images(bench):
    case_ = case()
    case_.data["X"] = models.noise(2, 3, 16, 16)
    bench.quantize(case_, "--preprocess", "crop=16").failed("--images", code=2)


@pytest.mark.serial
def test_memory_does_not_grow_with_the_images(bench):
    """Of 1.2 million pixels each."""
    peak = {}
    image = picture(1000, 1200)
    for n in (4, 40):
        for i in range(n):
            save(bench.inside / "i", f"{i:02}.jpg", image)
        run = quantize(bench, "resize=16,crop=16", out=f"{n}.onnx").ok()
        peak[n] = run.json["peak_memory"]["anonymous_bytes"]
    assert peak[40] < peak[4] + (4 << 20), peak


# Broken files


def encoded(kind):
    buffer = io.BytesIO()
    picture().save(buffer, kind)
    return buffer.getvalue()


PNG, JPEG = encoded("PNG"), encoded("JPEG")
BROKEN = {
    "empty": (b"", "empty"),
    "text": (b"not an image, whatever its name says", "neither a PNG nor a JPEG"),
    "png magic": (PNG[:8], "too early"),
    "png header": (PNG[:20], "too early"),
    "png cut": (PNG[: len(PNG) // 2], "too early"),
    "png end": (PNG[:-12], "too early"),
    "png checksum": (PNG[:2000] + bytes([PNG[2000] ^ 1]) + PNG[2001:], "png image"),
    "png no pixels": (png(0, 5, b""), "png image"),
    "png too few rows": (png(40, 40, b"\0" * 200), "png image"),
    "png huge": (png(60000, 60000, b""), "60000 x 60000"),
    "png widest": (png(0x7FFFFFFF, 0x7FFFFFFF, b""), "2147483647"),
    "jpeg magic": (JPEG[:3], "jpeg image"),
    "jpeg header": (JPEG[:100], "jpeg image"),
    "jpeg cut": (JPEG[: len(JPEG) // 2], "premature end"),
    "jpeg end": (JPEG[:-40], "premature end"),
    "jpeg huge": (JPEG.replace(b"\x00\x11\x08\x00\x3d\x00\x53", b"\x00\x11\x08\xf0\xf0\xf0\xf0"), "61680 x 61680"),
    "gif": (b"GIF89a" + bytes(20), "neither a PNG nor a JPEG"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_images(bench, name):
    content, fact = BROKEN[name]
    save(bench.inside / "i", "a.png", picture())
    (bench.inside / "i" / "b.jpg").write_bytes(content)
    refuse(bench, "crop=16", "b.jpg", fact)


def test_cmyk(bench):
    save(bench.inside / "i", "a.jpg", picture().convert("CMYK"))
    refuse(bench, "crop=16", "a.jpg", "CMYK")


@pytest.mark.parametrize("content", [PNG, JPEG], ids=["png", "jpeg"])
def test_flipped_bytes_never_crash(tmp_path, content):
    r = np.random.default_rng(1)
    (tmp_path / "i").mkdir()
    words = [TOOL, tmp_path / "i", "resize=16x16", "1", "-1,3,-1,-1", "0", tmp_path / "out"]
    for _ in range(60):
        broken = bytearray(content)
        for at in r.integers(0, len(broken), 3):
            broken[at] = r.integers(0, 256)
        (tmp_path / "i" / "a.png").write_bytes(broken)
        done = subprocess.run([str(w) for w in words], capture_output=True, timeout=20, check=False)
        assert done.returncode in (0, 1), done
        assert (done.returncode == 0) == (not done.stderr), done
