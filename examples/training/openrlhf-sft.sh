set -x

read -r -d '' training_commands <<EOF
openrlhf.cli.train_sft \
   --data.max_len 2048 \
   --data.dataset Open-Orca/OpenOrca \
   --data.input_key question \
   --data.output_key response \
   --train.batch_size 256 \
   --train.micro_batch_size 2 \
   --model.model_name_or_path meta-llama/Llama-3.1-8B \
   --model.gradient_checkpointing_enable \
   --ds.zero_stage 3 \
   --ds.param_dtype bf16 \
   --ds.attn_implementation flash_attention_2 \
   --ds.packing_samples \
   --adam.lr 5e-6 \
   --train.max_epochs 1
EOF

deepspeed --num_gpus 8 --module $training_commands
