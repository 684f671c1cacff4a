"""How a processor sizes images of any size."""


def grid_of(pixels, factor):
    """smart_resize of transformers' Qwen2VLImageProcessor, within its limits: rows and columns of merged patches."""
    return [max(1, round(int(side) / factor)) for side in pixels.split("x")]
