"""A vision transformer of Hugging Face: --batch images; --seq is its image's side in pixels."""

import torch
import torch.nn.functional as F
import transformers


def make_model(batch, seq):
    side = seq // 16 * 16
    config = transformers.ViTConfig(image_size=side, patch_size=16, num_labels=1000)
    model = transformers.ViTForImageClassification(config).bfloat16()
    images, labels = torch.randn(batch, 3, side, side, dtype=torch.bfloat16), torch.randint(1000, (batch,))
    return model, {"pixel_values": images}, lambda output: F.cross_entropy(output.logits.float(), labels)
