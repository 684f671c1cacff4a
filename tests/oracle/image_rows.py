"""Rows with images, as a tool's template encodes them."""

import torch

from image_sizes import grid_of


def image_rows(config, seq, images, pixels):
    """Their tokens stand between two of text; the first has no label, as a prompt's have none."""
    row = [3] * seq
    types = [0] * seq
    vision = config.vision_config
    merge = vision.spatial_merge_size
    height, width = (merge * n for n in grid_of(pixels, merge * vision.patch_size))
    tokens = height * width // merge ** 2
    for image in range(images):
        start = image * (tokens + 2) + 1
        row[start - 1] = config.vision_start_token_id
        row[start:start + tokens] = [config.image_token_id] * tokens
        types[start:start + tokens] = [1] * tokens
    patch = 3 * vision.temporal_patch_size * vision.patch_size ** 2
    return {"input_ids": row, "labels": [-100] + row[1:], "mm_token_type_ids": torch.tensor([types]),
            "pixel_values": torch.randn(images * height * width, patch),
            "image_grid_thw": torch.tensor([[1, height, width]] * images), "length": seq}
