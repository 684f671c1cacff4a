"""What other tools' own parsers make of the training files of examples/training: writes training_files.json.

    python training_files.py training_files.json    # TRL 1.16.0, transformers 5.23.0; LLaMA-Factory 0.9.5 on PYTHONPATH

No device and no weights are needed. A tool whose package is not there is left as it was.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def trl_values(path):
    from trl.scripts.sft import make_parser

    os.environ["ACCELERATE_USE_CPU"] = "1"
    parsed = make_parser().parse_args_and_config(["--config", str(path), "--use_cpu", "true"], fail_with_unknown_args=False)
    return {name: getattr(values, name) for values in parsed for name in vars(values)}


def llamafactory_values(path):
    """parser.py's _parse_train_args without its package's __init__, which asks for a web server's packages."""
    os.environ["DISABLE_VERSION_CHECK"] = "1"  # it wants transformers below 5.7; its own fields do not depend on that
    import yaml
    from llamafactory.hparams.data_args import DataArguments
    from llamafactory.hparams.finetuning_args import FinetuningArguments
    from llamafactory.hparams.generating_args import GeneratingArguments
    from llamafactory.hparams.model_args import ModelArguments
    from transformers import HfArgumentParser, TrainingArguments

    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    given |= {"output_dir": "out", "use_cpu": True, "deepspeed": None}
    parser = HfArgumentParser([ModelArguments, DataArguments, TrainingArguments, FinetuningArguments, GeneratingArguments])
    parsed = parser.parse_dict(given)
    return {name: getattr(values, name) for values in parsed for name in vars(values)}


def main():
    out = Path(sys.argv[1])
    oracle = json.loads(out.read_text()) if out.exists() else {"files": {}}
    for tool, pattern, values_of in (("trl", "trl*.yaml", trl_values), ("llamafactory", "llamafactory*.yaml", llamafactory_values)):
        known = json.loads((ROOT / f"data/tools/{tool}.json").read_text())
        for path in sorted((ROOT / "examples/training").glob(pattern)):
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    values = values_of(path)
            except ImportError as error:
                print(f"{tool}: left as it was: {error}", file=sys.stderr)
                continue
            plain = {}
            for key in known["defaults"]:
                value = getattr(values.get(key), "value", values.get(key))  # an enum's word
                if key in values and key != "deepspeed" and not isinstance(value, (list, dict)):
                    plain[key] = str(value)
            oracle["files"][str(path.relative_to(ROOT))] = {"tool": tool, "version": known["version"], "values": plain}
    out.write_text(json.dumps(oracle, indent=1) + "\n")


if __name__ == "__main__":
    main()
