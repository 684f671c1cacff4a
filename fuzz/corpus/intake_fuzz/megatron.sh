A=(
  --num-layers 4 --hidden-size 512 --num-attention-heads 8 --max-position-embeddings 1024
  "--vocab-size 50257" --tokenizer-type NullTokenizer --num-experts 8 --moe-layer-freq "([0]*1+[1]*3)"
)
export NVTE_FLASH_ATTN=0
torchrun --nproc_per_node 8 pretrain_gpt.py ${A[@]} --seq-length=1024 --micro-batch-size 2 --bf16 \
  --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 1 --disable-bias-linear
