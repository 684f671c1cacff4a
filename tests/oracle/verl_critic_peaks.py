"""Writes verl_critic_peaks.json: peaks of the phases of verl 0.9.1's PPO step, its actor's and its critic's workers in one process,
as Ray colocates them, on the emulated device.

    ac-advisor dryrun --world N --output /dev/null -- python verl_critic_peaks.py verl_critic_peaks.json --case K

All as verl_peaks.py has it. The critic is made as trainer/ppo/v1/trainer_base.py makes it (trainer.use_v1, the default): a
TrainingWorker of a value_model, before the actor, whose micro-batches have as many rows as ppo_infer_max_token_len_per_gpu
tokens are.

A step is update_weights, old_log_prob, ref where there is one, values, update_critic, update; figures are those of the third.
"""

import argparse
import functools
import json
import os
import sys
import tempfile

import verl_peaks  # sets the environment
from verl_peaks import BUCKET, STEPS, Server, imports

import torch
import torch.distributed as dist
import transformers

from emulated_cases import config_of
from verl_critic_cases import CASES, words

TOKENS = "ppo_infer_max_token_len_per_gpu"  # of no YAML, a field of CriticConfig
PLANNED = {"old_log_prob": "old_log_prob", "ref": "ref_log_prob", "values": "values", "update_critic": "update_critic"}


def configuration(entry, folder, critic_folder):
    settings = {
        "algorithm.adv_estimator": "gae",
        "critic.model.path": critic_folder,
        "+critic.model.load_tokenizer": False,
        "critic.model.enable_gradient_checkpointing": entry["ac"] == "full",
        "critic.strategy": {"fsdp1": "fsdp", "fsdp2": "fsdp2"}[entry["shard"]],
        "critic.ppo_micro_batch_size_per_gpu": entry["batch"],
    }
    for key, value in entry.get("critic_settings", {}).items():
        settings["+critic." + key if key == TOKENS else "critic." + key] = value
    config = verl_peaks.configuration(entry, folder, settings)
    assert config.trainer.use_v1
    return config


def critic_of(config):
    """trainer_base.py, _init_workers."""
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.config import TrainingWorkerConfig
    from verl.workers.engine_workers import TrainingWorker
    from verl.workers.utils.losses import value_loss

    critic = omega_conf_to_dataclass(config.critic)
    critic.engine.infer_max_token_len_per_gpu = critic.ppo_infer_max_token_len_per_gpu
    critic.engine.max_token_len_per_gpu = critic.ppo_infer_max_token_len_per_gpu
    worker = TrainingWorker(TrainingWorkerConfig(
        model_type="value_model", model_config=critic.model, engine_config=critic.engine, optimizer_config=critic.optim,
        checkpoint_config=critic.checkpoint))
    worker.reset()
    worker.set_loss_fn(functools.partial(value_loss, config=critic))
    return worker


class Critic:
    """values after what scores completions, its own update before the actor's."""

    def __init__(self, worker, config):
        self.worker, self.config = worker, config

    def run(self, batch, given, phases):
        from verl.utils import tensordict_utils as tu
        from verl.workers.utils.padding import no_padding_2_padding

        data = given(compute_loss=False)
        output = phases.run("values", lambda: self.worker.infer_batch(data))
        batch["values"] = no_padding_2_padding(tu.get(output, "values"), data).float()
        batch["returns"] = torch.ones_like(batch["values"])
        config = self.config.critic
        rows = config.ppo_mini_batch_size
        data = given(global_batch_size=rows, mini_batch_size=rows, epochs=config.ppo_epochs, seed=config.data_loader_seed,
                     dataloader_kwargs={"shuffle": config.shuffle})
        phases.run("update_critic", lambda: self.worker.train_mini_batch(data))


def saved(name, folder):
    described = transformers.AutoConfig.for_model(**config_of(name))
    described.architectures = [transformers.AutoModelForCausalLM._model_mapping[type(described)].__name__]
    described.save_pretrained(folder)
    return folder


def measure(entry):
    import verl.workers.engine_workers as engine_workers

    torch.cuda.set_device(0)
    dist.init_process_group("cpu:fake,cuda:nccl")
    transformers.AutoModelForCausalLM.from_pretrained = verl_peaks.made
    classifier = transformers.AutoModelForTokenClassification
    classifier.from_pretrained = functools.partial(verl_peaks.made, of=classifier)
    engine_workers.get_rollout_class = lambda *_: Server
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as critic_folder:
        config = configuration(entry, saved(entry["model"], folder), saved(entry.get("critic", entry["model"]), critic_folder))
        critic = Critic(critic_of(config), config)
        figures = verl_peaks.phases_of(entry, config, engine_workers.ActorRolloutRefWorker, critic.run)
    moments = critic.worker.engine.optimizer.state
    expected = STEPS * entry.get("verl", {}).get("mini_batches", 1)
    assert moments and all(s["step"] == expected for s in moments.values())
    return figures


def told(entry, figures):
    options = words(entry)
    if options is None:
        return {"setting": entry} | figures
    beside = {planned: {name: figures[phase][name] for name in ("allocated", "reserved")}
              for phase, planned in PLANNED.items() if phase in figures}
    beside["update_weights"] = {"allocated": figures["update_weights"]["allocated"] + BUCKET}
    return {"model": entry["model"], "options": options, "peak_allocated": figures["update"]["allocated"],
            "peak_reserved": figures["update"]["reserved"], "task_phases": beside, "setting": entry, "measured": figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    imports()
    entry = CASES[given.case]
    figures = measure(entry)
    print(json.dumps(entry), json.dumps(figures), flush=True)
    done = []
    if os.path.exists(given.output):
        with open(given.output) as file:
            written = json.load(file)
            done = [c for c in written["cases"] + written["beside"] if c["setting"] != entry]
    verl_peaks.write(given.output, [*done, told(entry, figures)], CASES)


if __name__ == "__main__":
    sys.exit(main())
