"""torchao's 8-bit AdamW."""

from torchao.optim import AdamW8bit

from model import arguments, model, tokens

args = arguments(batch=4)
net = model(args.tiny)
optimizer = AdamW8bit(net.parameters(), lr=1e-4)
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    net(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
