#!/usr/bin/env python3
"""Writes the seeds of fuzz_image: small images of every kind that is read.

usage: tests/fuzz/make_image_seeds.py
"""

import pathlib

import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "seeds" / "fuzz_image"


def picture():
    return Image.fromarray((np.arange(7 * 9 * 3) * 5 % 256).reshape(7, 9, 3).astype(np.uint8))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for mode in ("RGB", "L", "P", "1", "LA", "RGBA"):
        picture().convert(mode).save(FOLDER / f"{mode}.png")
    picture().save(FOLDER / "plain.jpg")
    picture().convert("L").save(FOLDER / "gray.jpg")
    picture().save(FOLDER / "progressive.jpg", progressive=True)
    picture().convert("CMYK").save(FOLDER / "cmyk.jpg")
