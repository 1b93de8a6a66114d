"""Makes PNG files small: each pixel gets one of 256 colors of its picture."""

import base64
import struct
import zlib

from playwright.sync_api import Browser

_INDICES = """
async (png) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const { width, height } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const difference = (one, other) =>
    [0, 8, 16].reduce((sum, bits) => sum + (((one >> bits) & 255) - ((other >> bits) & 255)) ** 2, 0);
  const colors = [...counts].sort(([, one], [, other]) => other - one).map(([color]) => color);
  const palette = colors.slice(0, 128);
  const errors = colors.map((color) => Math.min(...palette.map((other) => difference(color, other))));
  while (palette.length < 256 && palette.length < colors.length) {
    const added = colors[errors.indexOf(Math.max(...errors))];
    palette.push(added);
    colors.forEach((color, index) => errors[index] = Math.min(errors[index], difference(color, added)));
  }
  const nearest = (color) => {
    const differences = palette.map((other) => difference(color, other));
    return differences.indexOf(Math.min(...differences));
  };
  const indices = new Map(palette.map((color, index) => [color, index]));
  let text = "";
  for (const pixel of pixels) {
    if (!indices.has(pixel)) indices.set(pixel, nearest(pixel));
    text += String.fromCharCode(indices.get(pixel));
  }
  return { width, height, palette, text };
}
"""
"""Chromium decodes the picture, so that no library for pictures is needed.

The palette has the 128 most frequent colors, and then always the one that is the least like the others."""
_EIGHT_BITS, _INDEXED = 8, 3


def reduced(browser: Browser, png: bytes) -> bytes:
    """Return a picture as a PNG with a palette."""
    page = browser.new_page()
    found = page.evaluate(_INDICES, base64.b64encode(png).decode())
    page.close()
    width, height, pixels = found["width"], found["height"], found["text"].encode("latin-1")
    colors = b"".join(struct.pack("<I", color)[:3] for color in found["palette"])
    rows = b"".join(b"\0" + pixels[row * width : (row + 1) * width] for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, _EIGHT_BITS, _INDEXED, 0, 0, 0)
    chunks = [_chunk(b"IHDR", head), _chunk(b"PLTE", colors), _chunk(b"IDAT", zlib.compress(rows, 9)), _chunk(b"IEND")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
