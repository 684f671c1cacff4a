"""process_test.py AC-ADVISOR PYTHON: what dryrun tells of a process that does not end as others do, and of ranks' objects."""

import json
import os
import subprocess
import sys
import tempfile

advisor, python = sys.argv[1:]

# Two steps, then an end in the middle of the third.
ENDING = """
import os, signal, sys, torch
module = torch.nn.Linear(1024, 1024, device="cuda")
optimizer = torch.optim.AdamW(module.parameters())
for step in range(3):
    if step == 2:
        {"kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "abort": os.abort,
         "sent": lambda: os.kill(os.getpid(), signal.SIGSEGV), "at once": lambda: os._exit(3),
         "exec": lambda: os.execv("/bin/true", ["true"])}[sys.argv[1]]()
    module(torch.ones(8, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Before any step: what the device handed out is known, and PyTorch's figures where it ends by itself.
EARLY = """
import os, signal, sys, torch
kept = torch.empty(64 << 20, device="cuda")
{"kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "at once": lambda: os._exit(3)}[sys.argv[1]]()
"""
# More than 3,072 indices go through CUB's sort, which chooses its parameters by the code's architecture.
EMBEDDING = """
import torch
table = torch.nn.Embedding(1000, 64, device="cuda")
table(torch.zeros(4096, dtype=torch.long, device="cuda")).sum().backward()
torch.cuda.synchronize()
"""
# No test of a device: a process before PyTorch, by the driver's own names.
WITHOUT_TORCH = """
import ctypes, os
cuda, pointer = ctypes.CDLL(None), ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64 << 20)) == 0
os.execv("/bin/true", ["true"])
"""
OBJECTS = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
rank, got, shared, mine = dist.get_rank(), [None], [None, None], [None]
if rank == 0:
    dist.send_object_list([{"shape": (2, 3)}], dst=1)
    dist.recv_object_list(got, src=1)
    shared = ["from", 0]
else:
    dist.recv_object_list(got, src=0)
    dist.send_object_list([got[0]["shape"][::-1]], dst=0)
dist.broadcast_object_list(shared, src=0)
dist.scatter_object_list(mine, ["a", "b"] if rank == 0 else None, src=0)
torch.ones(1, device="cuda")
print("rank", rank, got, shared, mine, flush=True)
os._exit(0)
"""


def dryrun(program, *options, words=(), env=None):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "profile.json")
        command = [advisor, "dryrun", "--format", "json", "--output", output, *options, "--", python, "-c", program, *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=dict(os.environ, **(env or {})))
        profile = json.load(open(output)) if os.path.exists(output) else None
    return done, profile


peaks = set()
for how, code in (("kill", 137), ("abort", 134), ("sent", 139), ("exec", 0), ("at once", 3)):
    done, profile = dryrun(ENDING, words=[how])
    assert done.returncode == code and profile is not None, (how, done)
    peaks.add(profile["memory"]["peak_allocated_bytes"])
    assert profile["memory"]["peak_allocated_bytes"] > 4 * 4 * 1024 * 1024, how  # weights, gradients, two moments
    assert len(profile["steps"]) >= 1, (how, profile["steps"])
    told = "figures are until then" if how == "at once" else "figures are until its last change of phase"
    assert any(told in w for w in profile["warnings"]), (how, profile["warnings"])
assert len(peaks) == 1, peaks

for how, code in (("kill", 137), ("at once", 3)):
    done, profile = dryrun(EARLY, words=[how])
    assert done.returncode == code and profile["emulation"]["device_peak_bytes"] >= 256 << 20, (how, done, profile)
    allocated = profile["memory"].get("peak_allocated_bytes")
    assert allocated == (256 << 20 if how == "at once" else None), (how, allocated)

done, profile = dryrun(WITHOUT_TORCH)
assert done.returncode == 0 and profile["emulation"]["device_peak_bytes"] >= 64 << 20, (done, profile)

for gpu in ("l4", "h100-80gb"):
    done, profile = dryrun(EMBEDDING, "--gpu", gpu)
    assert done.returncode == 0, (gpu, done.stderr[-2000:])

# docs/dryrun.md: set to the emulated devices.
done, _ = dryrun("import os, torch; torch.ones(1, device='cuda'); print(os.environ['CUDA_VISIBLE_DEVICES'])", env={"CUDA_VISIBLE_DEVICES": "5,6"})
assert done.stdout == "0\n", done

for rank in (0, 1):
    done, _ = dryrun(OBJECTS, "--world", "2", "--rank", str(rank))
    got = ["[(3, 2)]", "[{'shape': (2, 3)}]"][rank]
    told = f"rank {rank} {got} ['from', 0] ['{'ab'[rank]}']\n"
    assert done.returncode == 0 and done.stdout == told, (rank, told, done)
print("as it should be")
