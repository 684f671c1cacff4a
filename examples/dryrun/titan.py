"""TorchTitan's own trainer: Llama 3 with FSDP2 and selective checkpointing; run with --world N [--rank R].

--pp P makes it a pipeline of P stages. Its tokenizer and its data are made here, so that nothing is downloaded.
"""

import json
import os
import sys
import tempfile

from tokenizers import Tokenizer, models, pre_tokenizers

from loop import report
from model import arguments

args = arguments(batch=1, seq=8192, pp=1)
words = {f"w{i}": i for i in range(2000)} | {"<unk>": 2000, "<bos>": 2001, "<eos>": 2002}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.makedirs("tests/assets/c4_test")
    tokenizer.save("tokenizer.json")
    with open("tokenizer_config.json", "w") as file:
        json.dump({"bos_token": "<bos>", "eos_token": "<eos>"}, file)
    with open("tests/assets/c4_test/data.json", "w") as file:
        for i in range(64):
            text = " ".join(f"w{(i * 31 + j) % 2000}" for j in range(args.seq))
            file.write(json.dumps({"text": text}) + "\n")
    options = {
        "--model.flavor": "debugmodel" if args.tiny else "8B",
        "--model.hf_assets_path": folder,
        "--training.local_batch_size": args.batch,
        "--training.seq_len": args.seq,
        "--training.steps": args.steps,
        "--metrics.log_freq": 1,
        "--activation_checkpoint.mode": "selective",
        "--activation_checkpoint.selective_ac_option": "op",
    }
    if args.pp > 1:
        options["--parallelism.pipeline_parallel_degree"] = args.pp
        options["--training.local_batch_size"] = args.batch * args.pp
    sys.argv = ["torchtitan"] + [str(v) for pair in options.items() for v in pair]
    for name, value in {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_PORT": 29557}.items():
        os.environ.setdefault(name, str(value))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    from torchtitan.train import Trainer, main  # reads sys.argv when it is imported

    main(Trainer)
    report()
    os.chdir("/")
