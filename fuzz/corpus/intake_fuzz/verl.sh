n=5
python3 -m verl.trainer.main_ppo --config-name=ppo_trainer algorithm.adv_estimator=grpo \
  actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.model.lora_rank=64 \
  actor_rollout_ref.model.target_modules=[q_proj,v_proj] actor_rollout_ref.actor.strategy=fsdp2 \
  actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24576 \
  actor_rollout_ref.actor.fsdp_config.fsdp_size=4 actor_rollout_ref.rollout.n=$n \
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization=0.6
